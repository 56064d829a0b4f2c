"""Scans: rows of a store's views and of its own tables as streams of Arrow in real types, all of one commit.

with scanning(reader) as snapshot:
    snapshot.views["totals"].schema
    snapshot.scan("totals", ["k", "n"], []).read_all()
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property, lru_cache
from threading import Lock
from typing import Any, Final

import polars as pl
import pyarrow as pa

from penstock.kernel.arrow import arrow_type
from penstock.kernel.expressions import dtype
from penstock.kernel.keys import encoded
from penstock.model.time import BEGINNING, END
from penstock.model.types import Schema
from penstock.state.read import SegmentTable
from penstock.store.base import StoreError
from penstock.store.connection import Connection
from penstock.store.dialect import quoted
from penstock.store.format import IN_SEGMENTS
from penstock.store.reader import Reader
from penstock.store.scan_columns import Column, Whole, column_of
from penstock.store.scan_filters import Condition, bound_rules, key_is, rule
from penstock.store.segment_scan import open_table, selection_of, typed_batches

#: The statement that made what people read of a view: its columns, its table, and which rows are there.
_MADE: Final = re.compile(
    r'CREATE VIEW "(?:[^"]|"")+" AS SELECT (.*) FROM ("__(?:[^"]|"")+")(?: WHERE (.*))?', re.DOTALL
)
_VIEWS: Final = """SELECT v.name, c.columns, s.sql FROM __views v
    JOIN __catalog c ON c.kind = 'view' AND c.name = v.name
    JOIN {schema} s ON s.type = 'view' AND s.name = v.name ORDER BY v.name"""
#: The number of the newest commit.
LAST_COMMIT: Final = "SELECT coalesce(max(number), 0) AS n FROM __commits"
_STATE: Final = ("__view_", "__old_", "__ghosts_", "__seen_", "__ids_")
_BOUNDS: Final = ("window_start", "window_end")
_OWN_TYPES: Final = {"INTEGER": "bigint", "REAL": "double", "BLOB": "binary", "BIGINT": "bigint", "BYTEA": "binary",
                     "DOUBLE PRECISION": "double", "BOOLEAN": "boolean"}  # fmt: skip


@dataclass(frozen=True)
class Scannable:
    """A view, or a table of the store's own: columns with Spark's types, and where its rows lie."""

    name: str
    schema: Schema
    table: str
    where: str = ""
    #: How a view shows its windows: as text, as numbers, or not at all.
    windows: str = ""
    is_view: bool = True

    @property
    def keys(self) -> tuple[str, ...]:
        names = self.schema.names
        return names[: names.index("window_start")] if self.is_view else ()

    @property
    def in_segments(self) -> bool:
        """Whether its rows are in segments, not in a table."""
        return self.is_view and self.table == quoted(IN_SEGMENTS)


class Snapshot:
    """What is committed at one moment. `root` is the folder of segments."""

    def __init__(self, connection: Connection, root: str) -> None:
        self._connection, self._root = connection, root
        self._tables: dict[str, SegmentTable] = {}
        self._lock = Lock()  # streams of one connection are read by several threads
        self._open: list[Iterator[pa.RecordBatch]] = []
        #: Why a stream broke off: Arrow hands on the text only.
        self.failure: BaseException | None = None

    @cached_property
    def commit(self) -> int:
        """The number of the newest commit."""
        return int(self._connection.rows(LAST_COMMIT).item())

    @cached_property
    def views(self) -> Mapping[str, Scannable]:
        sql = _VIEWS.format(schema=self._connection.dialect.schema)
        rows = self._connection.rows(sql).iter_rows()
        return {name: _view(name, columns, statement) for name, columns, statement in rows}

    @cached_property
    def own_tables(self) -> Mapping[str, Scannable]:
        """The store's own tables, for operators, but for the state of views."""
        names = sorted(name for name in self._connection.tables() if name.startswith("__"))
        names = [name for name in names if not name.startswith(_STATE)]
        return {name: self._table(name) for name in names}

    def _table(self, name: str) -> Scannable:
        kinds = self._connection.kinds_of(name)
        columns = tuple((column, _OWN_TYPES.get(kind.upper(), "string")) for column, kind in kinds)
        return Scannable(name, Schema(columns), quoted(name), is_view=False)

    def scan(self, of: Scannable, columns: Sequence[str], conditions: Sequence[Condition]) -> pa.RecordBatchReader:
        """The rows of a view or table that may fulfil the conditions: only these columns, in this order.

        Without columns there is one that says nothing but how many rows there are.
        """
        if of.in_segments:
            return self._segment_scan(of, columns, conditions)
        read = [self._column(of, name) for name in columns] or [Whole("boolean", "1")]
        sql, parameters = self.statement(of, read, conditions)
        like = [literal for column in read for literal in column.like]
        schema = _arrow_schema(of, columns)
        rows = self._batches(self._connection.batches(sql, parameters, like), read, schema)
        self._open.append(rows)
        return pa.RecordBatchReader.from_batches(schema, rows)

    def _segment_scan(
        self, of: Scannable, columns: Sequence[str], conditions: Sequence[Condition]
    ) -> pa.RecordBatchReader:
        table, schema = self.segment_table(of), _arrow_schema(of, columns)
        selection = selection_of(of.schema, of.keys, of.windows, conditions)
        rows = self._noting_failure(typed_batches(table, schema, of.windows, selection))
        return pa.RecordBatchReader.from_batches(schema, rows)

    def segment_table(self, of: Scannable) -> SegmentTable:
        """A view whose rows are in segments. All of its files are open: they may be removed from here on."""
        if of.name not in self._tables:
            with self._lock:
                self._tables[of.name] = open_table(self._connection, self._root, of.name, of.keys)
        return self._tables[of.name]

    def rows(self, sql: str, parameters: Sequence[object] = ()) -> pl.DataFrame:
        """The answer to a question about the store's own tables."""
        with self._lock:
            return self._connection.rows(sql, parameters)

    def _noting_failure(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            yield from batches
        except GeneratorExit:
            raise
        except BaseException as error:
            self.failure = error
            raise

    def statement(
        self, of: Scannable, read: Sequence[Column], conditions: Sequence[Condition]
    ) -> tuple[str, list[object]]:
        """The SELECT that reads these columns, and its parameters."""
        rules, parameters = self._rules(of, conditions)
        where = f" WHERE {' AND '.join(f'({one})' for one in rules)}" if rules else ""
        selected = ", ".join(part for column in read for part in column.selects)
        return f"SELECT {selected} FROM {of.table}{where}", parameters

    def _column(self, of: Scannable, name: str) -> Column:
        kind = of.schema.type_of(name)
        finds_nan = self._connection.dialect.finds_nan
        if of.is_view and name in _BOUNDS:
            bound = {"window_start": "__start", "window_end": "__end"}[name]
            return Whole(kind, bound if of.windows else "NULL")
        if of.is_view and name == "final":
            return Whole(kind, "final")
        return column_of(kind, quoted(name), self._state(of, name), finds_nan)

    def _state(self, of: Scannable, name: str) -> str | None:
        """Where a key's time is kept as a number beside its text."""
        return quoted(f":{name}") if name in of.keys and of.schema.type_of(name) in ("timestamp", "date") else None

    def _rules(self, of: Scannable, conditions: Sequence[Condition]) -> tuple[list[str], list[object]]:
        parameters: list[object] = []
        rules = [of.where] if of.where else []

        def mark(value: object) -> str:
            parameters.append(value)
            return f"?{len(parameters)}"

        if of.is_view and not of.windows and of.keys and (key := key_is(of.keys, conditions)) is not None:
            frame = pl.DataFrame({n: pl.Series(n, [key[n]], dtype(of.schema.type_of(n)), strict=False) for n in key})
            rules.append(f"__end = {END} AND __start = {BEGINNING} AND final IN (0, 1)")
            rules.append(f"__key = {mark(encoded(frame).item())}")
            return rules, parameters
        for condition in conditions:
            kind = of.schema.type_of(condition.column)
            if of.is_view and condition.column in _BOUNDS:
                if of.windows and condition.op != "is null":
                    rules += [*bound_rules(condition, mark, of.windows == "count"), "final IN (0, 1)"]
                continue
            if of.is_view and condition.column == "final":
                if condition.op == "=":
                    rules.append(f"final = {mark(int(bool(condition.values[0])))}")
                continue
            state, nan = self._state(of, condition.column), self._connection.dialect.finds_nan
            filter_sql = rule(kind, quoted(condition.column), state, condition, mark, nan)
            rules += [filter_sql] if filter_sql else []
        return list(dict.fromkeys(rules)), parameters

    def _batches(
        self, batches: Iterator[pa.RecordBatch], read: Sequence[Column], schema: pa.Schema
    ) -> Iterator[pa.RecordBatch]:
        try:
            yield from self._noting_failure(self._decoded(batches, read, schema))
        finally:
            with self._lock:
                batches.close()  # type: ignore[attr-defined]

    def _decoded(
        self, batches: Iterator[pa.RecordBatch], read: Sequence[Column], schema: pa.Schema
    ) -> Iterator[pa.RecordBatch]:
        while True:
            with self._lock:
                batch = next(batches, None)
            if batch is None:
                return
            yield _decoded(batch, read, schema)

    def close(self) -> None:
        for rows in self._open:
            with suppress(RuntimeError, ValueError):
                rows.close()  # type: ignore[attr-defined]
        self._open.clear()


@contextmanager
def scanning(reader: Reader) -> Iterator[Snapshot]:
    """A moment of a store, to be scanned."""
    with reader.moment_of() as connection:
        snapshot = Snapshot(connection, reader.segments_at)
        try:
            yield snapshot
        finally:
            snapshot.close()


@lru_cache(maxsize=4096)
def _view(name: str, columns: str, definition: str) -> Scannable:
    match = _MADE.fullmatch(definition)
    if match is None:
        raise StoreError(f"the view '{name}' was not made by Penstock", detail=definition)
    shown, table, where = match.groups()
    schema = Schema(tuple((column, kind) for column, kind in json.loads(columns)))
    windows = "count" if schema.type_of("window_start") == "bigint" else "time"
    if re.search(r'NULL(::text)? AS "window_start"', shown):
        windows = ""
    return Scannable(name, schema, table, where or "", windows)


def _arrow_schema(of: Scannable, columns: Sequence[str]) -> pa.Schema:
    fields = [(name, arrow_type(of.schema.type_of(name))) for name in columns]
    return pa.schema(fields or [("__row", pa.bool_())])


def _decoded(batch: pa.RecordBatch, read: Sequence[Column], schema: pa.Schema) -> pa.RecordBatch:
    columns: list[Any] = batch.columns
    arrays, at = [], 0
    for column, field in zip(read, schema, strict=True):
        width = len(column.selects)
        arrays.append(column.decode(columns[at : at + width], field.type))
        at += width
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
