"""Runs plans on DuckDB, in memory: without files, extensions or network, within limits of memory, threads and time.

>>> from penstock.model.types import Schema
>>> rows = pa.table({"k": ["a", "b"], "n": [1, 2]})
>>> scan = Scan("v", "s", ("k", "n"), ())
>>> plan = Plan("SELECT max(n) AS n FROM s WHERE k = $1", ("b",), (scan,), Schema.parse("n bigint"))
>>> Engine().run(plan, lambda scan: rows).table.to_pylist()
[{'n': 2}]
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain, islice
from threading import Condition, Event, Lock, Thread
from typing import Any

import duckdb
import pyarrow as pa

from penstock.kernel.arrow import arrow_type
from penstock.model.types import Schema
from penstock.process_state import process
from penstock.query.answer import Answer
from penstock.query.errors import QueryError, TooLarge, TooSlow, explained
from penstock.query.limits import Limits
from penstock.query.plan import Plan, Scan
from penstock.query.udfs import register

_ROWS = 1 << 14
_PAUSE = 0.05


def shared_engine() -> Engine:
    """An engine for this process, with the usual limits."""
    return process.of(Engine)


class Source:
    """A relation of a plan: whenever DuckDB reads it, it gets the rows from the start.

    What fits into one batch is read once. More than that is read again each time, so that it need not be kept.
    """

    def __init__(self, rows: Callable[[], pa.Table | pa.RecordBatchReader]) -> None:
        self._rows = rows
        first = rows()
        self._schema = first.schema
        self._table = first if isinstance(first, pa.Table) else None
        self._begun: pa.RecordBatchReader | None = None
        if isinstance(first, pa.RecordBatchReader):
            batches = list(islice(first, 2))
            if len(batches) < 2:
                self._table = pa.Table.from_batches(batches, first.schema)
            else:
                self._begun = pa.RecordBatchReader.from_batches(first.schema, chain(batches, first))

    def __arrow_c_schema__(self) -> object:
        return self._schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        if self._table is not None:
            return self._table.__arrow_c_stream__(requested_schema)
        begun, self._begun = self._begun, None
        return (self._rows() if begun is None else begun).__arrow_c_stream__(requested_schema)


class Engine:
    """A DuckDB of one's own. It runs one plan at a time."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.limits = limits or Limits()
        self._connection = duckdb.connect(":memory:")
        for name, value in (
            ("threads", self.limits.threads),
            ("memory_limit", f"{self.limits.memory}B"),
            ("temp_directory", ""),
            ("autoload_known_extensions", False),
            ("autoinstall_known_extensions", False),
            ("allow_community_extensions", False),
            ("python_enable_replacements", False),
            ("default_null_order", "NULLS_FIRST"),
            ("enable_external_access", False),
        ):
            self._connection.execute(f"SET {name} = {value!r}")
        register(self._connection)
        self._connection.execute("SET lock_configuration = true")
        self._lock = Lock()
        self._watch = _Watch(self._connection.interrupt)

    def run(
        self,
        plan: Plan,
        rows_of: Callable[[Scan], pa.Table | pa.RecordBatchReader],
        limits: Limits | None = None,
        stop: Event | None = None,
    ) -> Answer:
        """The answer of a plan over these rows.

        `limits` may set the time and the answer's size for this plan; it also ends when `stop` is set.
        """
        limits = limits or self.limits
        with self._lock, self._timed(limits.seconds, stop):
            for scan in plan.scans:
                self._connection.register(scan.name, Source(lambda scan=scan: rows_of(scan)))  # type: ignore[misc]
            try:
                return self._answer(plan, limits)
            finally:
                for scan in plan.scans:
                    self._connection.unregister(scan.name)

    def interrupt(self) -> None:
        """Stops the plan that runs, if one does."""
        self._connection.interrupt()

    def close(self) -> None:
        self._connection.close()

    def _answer(self, plan: Plan, limits: Limits) -> Answer:
        relation = self._connection.sql(plan.sql, params=list(plan.parameters))
        fields = [arrow_type(kind) for _, kind in plan.schema]
        batches: list[pa.RecordBatch] = []
        count = size = 0
        more = False
        with relation.to_arrow_reader(_ROWS) as reader:
            for batch in reader:
                batch = _typed(batch, plan.schema, fields)
                if limits.rows is not None and count + batch.num_rows > limits.rows:
                    batch, more = batch.slice(0, limits.rows - count), True
                batches.append(batch)
                count, size = count + batch.num_rows, size + batch.get_total_buffer_size()
                if limits.size is not None and size > limits.size:
                    raise TooLarge(
                        f"the answer is larger than {limits.size} bytes",
                        hint="ask for fewer columns or rows, or use LIMIT",
                    )
                if more:
                    break
        names = list(plan.schema.names)
        schema = pa.schema(list(zip(names, fields, strict=True)))
        return Answer(plan.schema, pa.Table.from_batches(batches, schema), more)

    @contextmanager
    def _timed(self, seconds: float | None, stop: Event | None) -> Iterator[None]:
        """Interrupts DuckDB when the time is over, and puts its errors in our words."""
        end = None if seconds is None else time.monotonic() + seconds
        self._watch.start(end, stop)
        try:
            yield
        except QueryError:
            raise
        except (duckdb.Error, pa.ArrowException, OSError) as error:
            raise _judged(error, self.limits, seconds, end) from error
        finally:
            self._watch.end()


class _Watch:
    """Interrupts what runs when its time is over. DuckDB forgets an interrupt that comes between two of its steps."""

    def __init__(self, interrupt: Callable[[], None]) -> None:
        self._interrupt, self._changed = interrupt, Condition()
        self._runs, self._end, self._stop = False, None, None  # type: tuple[bool, float | None, Event | None]
        self._thread: Thread | None = None

    def start(self, end: float | None, stop: Event | None) -> None:
        if end is None and stop is None:
            return
        with self._changed:
            if self._thread is None:
                self._thread = Thread(target=self._loop, daemon=True)
                self._thread.start()
            self._runs, self._end, self._stop = True, end, stop
            self._changed.notify()

    def end(self) -> None:
        with self._changed:
            self._runs = False

    def _loop(self) -> None:
        with self._changed:
            while True:
                self._changed.wait(_PAUSE if self._runs else None)
                over = self._end is not None and time.monotonic() >= self._end
                if self._runs and (over or (self._stop is not None and self._stop.is_set())):
                    self._interrupt()


def _judged(error: Exception, limits: Limits, seconds: float | None, end: float | None) -> QueryError:
    text = str(error)
    if isinstance(error, duckdb.InterruptException) or "INTERRUPT" in text:
        limit = f"the query takes longer than {seconds:g} s" if seconds is not None else "the query was stopped"
        if end is not None and time.monotonic() < end:
            limit = "the query was stopped"
        return TooSlow(limit, hint="ask for less, or name a key or a window")
    if isinstance(error, duckdb.OutOfMemoryException) or "Out of Memory" in text:
        megabytes = limits.memory >> 20
        return TooLarge(
            f"the query needs more than {megabytes} MB of memory", hint="ask for fewer columns, rows or groups"
        )
    return explained(error)


def _typed(batch: pa.RecordBatch, schema: Schema, kinds: list[pa.DataType]) -> pa.RecordBatch:
    """A batch of the answer in the types that the plan promises."""
    columns: list[Any] = [
        column if column.type == kind else column.cast(kind)
        for column, kind in zip(batch.columns, kinds, strict=True)
    ]  # fmt: skip
    return pa.RecordBatch.from_arrays(columns, list(schema.names))
