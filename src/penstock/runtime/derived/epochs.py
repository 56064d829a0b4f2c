"""Calls a function when an epoch is over: when all of it is committed, in its stream and all that is made from it.

This is a stream made from others: it reads the commits of a stream and of all that follow it. Its progress is in the
store, written by the same commit as the rows that the function returns. So these rows appear exactly once.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import polars as pl

from penstock.errors import DefinitionError
from penstock.kernel.expressions import dtype
from penstock.model.epochs import EpochProgress
from penstock.model.kinds import kind_of
from penstock.model.naming import function_name
from penstock.model.stream import Flow, Stream, stream
from penstock.model.time import END, SECOND, Instant
from penstock.model.types import Schema
from penstock.runtime.derived.arrivals import Arriving
from penstock.runtime.derived.base import Derived, EpochInput, Memory, Step
from penstock.runtime.derived.commit_offsets import SCHEMA
from penstock.runtime.derived.commits import past_of
from penstock.runtime.derived.followers import Followers, following
from penstock.runtime.derived.times import TIME
from penstock.sources.kafka.columns import partition_number
from penstock.sources.kafka.source import Kafka
from penstock.store import Store
from penstock.store.memory import REMEMBERED

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: The column with the number of the epoch.
EPOCH: Final = "epoch"
#: What is remembered, under this part and key.
PART, KEY = "epochs", b"passed"
#: After how many seconds a function that failed is called again: at first, and at most.
_PAUSES: Final = (1.0, 60.0)
_log = logging.getLogger("penstock.runtime")


@dataclass(frozen=True)
class Epoch:
    """An epoch that is over. `commit` is the one by which all of it was done; `query` asks the store, in its SQL."""

    number: int
    commit: int
    query: Callable[..., pl.DataFrame] = field(compare=False, repr=False)


OnEpoch: TypeAlias = Callable[[Epoch], Any]


@dataclass
class EpochsState:
    """The stored progress: how far partitions are, epochs that wait for those that follow, and the last one reported.

    `waiting` are pairs of an epoch and the commit that completed it in its own stream.
    """

    passed: EpochProgress = field(default_factory=EpochProgress)
    waiting: list[tuple[int, int]] = field(default_factory=list)
    reported: int | None = None
    failures: int = 0

    def saved(self) -> bytes:
        saved = {"passed": self.passed.saved(), "waiting": self.waiting, "told": self.reported}
        return json.dumps({**saved, "failures": self.failures}).encode()

    @classmethod
    def restore(cls, data: bytes) -> EpochsState:
        saved = json.loads(data)
        waiting = [(int(number), int(commit)) for number, commit in saved["waiting"]]
        return cls(EpochProgress.restore(saved["passed"]), waiting, saved["told"], saved["failures"])


@dataclass(frozen=True, repr=False)
class EpochsSource(Derived):
    """What a function gives for each epoch of a stream that is over. `following` is made from that stream."""

    of: Stream
    function: OnEpoch
    schema: Schema
    following: tuple[Stream, ...] = field(default=(), compare=False)

    @property
    def inputs(self) -> tuple[Stream, ...]:
        return (self.of, *self.following)

    def read(self, spark: SparkSession, schema: Schema, columns: Sequence[str]) -> DataFrame:
        return self.commits(spark, self.name)

    @contextmanager
    def step(self, epoch_input: EpochInput, memory: Memory, now: Instant) -> Iterator[Step]:
        read = list(epoch_input.parts)
        kept = memory.of(PART, [KEY])
        state = EpochsState.restore(kept[KEY]) if KEY in kept else EpochsState()
        commits = {time["commit"] for kind, data in read if kind == TIME for time in json.loads(data)}
        late = self._look(epoch_input.spark, read, _own(memory.store, self.of.name, commits), state)
        returned, due, count = self._call(memory.store, state, now)
        frame = epoch_input.spark.createDataFrame(returned, self.schema.ddl())
        memory_rows = pl.DataFrame([(PART, KEY, state.saved())], schema=REMEMBERED, orient="row")
        counters = {EPOCH + "s": count} | ({"late_rows": late} if late else {})
        notes = {"epoch": state.reported, "waiting": len(state.waiting)}
        yield Step(frame, (END, due), memory_rows, counters, notes)

    # what has come

    def _look(
        self,
        spark: SparkSession,
        read: list[tuple[str, bytes]],
        commits: list[tuple[int, str | None]],
        state: EpochsState,
    ) -> int:
        """Which epochs these commits of the stream complete; how many rows came for one that was over."""
        rule = self.of.epoch
        if rule is None:  # its own: each commit is one
            state.waiting += [(number, number) for number, _ in commits]
            return 0
        ends = rule.ends or "false"
        flow = self.of.select(number=f"CAST({rule.number} AS bigint)", ends=f"coalesce({ends}, false)")
        numbers = _numbers(spark, read, self.of.name, flow)
        log, late = self.of.log, 0
        for commit, offsets in commits:
            for partition, number, over, rows in numbers.filter(pl.col("commit") == commit).drop("commit").iter_rows():
                if state.passed.row(partition, number, over):
                    late += rows
            known = _partitions(log, offsets)
            state.waiting += [(number, commit) for number in state.passed.complete(known)]
        return late

    # calls

    def _call(self, store: Store, state: EpochsState, now: Instant) -> tuple[list[tuple[object, ...]], Instant, int]:
        """Calls the function for each epoch that is over; its rows, when to try again, and how many there were."""
        returned: list[tuple[object, ...]] = []
        count, followers = 0, Followers(store, state.waiting[0][1] if state.waiting else 0, self.following)
        while state.waiting:
            number, commit = state.waiting[0]
            done = followers.done(self.of.name, commit)
            if done is None:
                break
            try:
                returned += self._rows(number, self.function(Epoch(number, done, store.query)))
            except Exception as error:
                state.failures += 1
                first, longest = _PAUSES
                pause = min(longest, first * 2 ** min(state.failures - 1, 30))
                _log.warning(
                    "%s failed for the epoch %d of '%s' (%d in a row), next try in %g s: %s: %s",
                    function_name(self.function), number, self.of.name, state.failures, pause,
                    type(error).__name__, error,
                )  # fmt: skip
                return returned, now + int(pause * SECOND), count
            state.waiting.pop(0)
            state.reported, state.failures, count = number, 0, count + 1
        return returned, END, count

    def _rows(self, number: int, returned: Any) -> list[tuple[object, ...]]:
        """What the function returned, as rows of the stream; one for the epoch, where it has no other columns."""
        kinds = [kind_of(kind) for _, kind in self.schema][1:]
        if not kinds:
            return [(number,)]
        rows = returned if isinstance(returned, list) else [] if returned is None else [returned]
        output: list[tuple[object, ...]] = []
        for row in rows:
            values = [row.get(name) for name in self.schema.names[1:]] if isinstance(row, Mapping) else list(row)
            taken = [kind.given(kind.taken(value)) for kind, value in zip(kinds, values, strict=True)]
            output.append((number, *taken))
        return output

    def __repr__(self) -> str:
        return f"{self.of!r}.on_epoch({function_name(self.function)})"


def _own(store: Store, stream: str, commits: Collection[int]) -> list[tuple[int, str | None]]:
    """Which of these commits are the stream's own, and their offsets."""
    if not commits:
        return []
    sql = (
        'SELECT e."commit", c.offsets FROM __epochs e LEFT JOIN __commits c ON c.number = e."commit" '
        'WHERE e.stream = ?1 AND e."commit" >= ?2 AND e."commit" <= ?3 ORDER BY 1'
    )
    progress = store.query(sql, [stream, min(commits), max(commits)])
    return [(number, offsets) for number, offsets in progress.iter_rows() if number in commits]


def _partitions(log: object, offsets: str | None) -> Collection[int]:
    """The partitions that a log has at these offsets; none where it has none of its own."""
    if not isinstance(log, Kafka) or offsets is None:
        return ()
    places = ((topic, int(text)) for topic, parts in json.loads(offsets).items() for text in parts)
    return {partition_number(*place) if log.several else place[1] for place in places}


@dataclass(frozen=True)
class _Numbers:
    """The numbers of epochs that rows have, by commit and partition."""

    flow: Flow

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        from penstock.runtime.derived.arrivals import spark_batches

        for batch in Arriving(self.flow)(batches):
            rows = pl.DataFrame(pl.from_arrow(batch)).filter(pl.col("number").is_not_null())
            by_partition = rows.group_by(
                pl.col("__commit").alias("commit"), pl.col("__partition").alias("partition"), "number"
            )
            yield from spark_batches(by_partition.agg(pl.col("ends").any(), pl.len().cast(pl.Int64).alias("rows")))


def _numbers(spark: SparkSession, read: list[tuple[str, bytes]], stream: str, flow: Flow) -> pl.DataFrame:
    files = [(kind, data) for kind, data in read if kind != TIME and past_of(data).stream.name == stream]
    schema = {"commit": "bigint", "partition": "int", "number": "bigint", "ends": "boolean", "rows": "bigint"}
    if not files:
        return pl.DataFrame(schema={name: dtype(kind) for name, kind in schema.items()})
    ddl = ", ".join(f"{name} {kind}" for name, kind in schema.items())
    frame = spark.createDataFrame(files, SCHEMA).mapInArrow(_Numbers(flow), ddl)
    rows = [tuple(row) for row in frame.collect()]
    numbers = pl.DataFrame(rows, schema={name: dtype(kind) for name, kind in schema.items()}, orient="row")
    by = ["commit", "partition", "number"]
    return numbers.group_by(by).agg(pl.col("ends").any(), pl.col("rows").sum()).sort(by)


def waiting(streams: Mapping[str, Stream]) -> dict[str, Stream]:
    """The streams of an app, in which those that tell of epochs wait for all that follow."""
    return {
        name: replace(stream, log=replace(stream.log, following=following(streams, stream.log.of, EpochsSource)))
        if isinstance(stream.log, EpochsSource)
        else stream
        for name, stream in streams.items()
    }


def is_reported(store: Store, name: str, number: int) -> bool:
    """Whether the function of a stream of epochs was called for this one."""
    kept = Memory(store, name).of(PART, [KEY])
    reported = EpochsState.restore(kept[KEY]).reported if KEY in kept else None
    return reported is not None and reported >= number


def epoch_stream(
    name: str,
    of: Stream,
    function: OnEpoch,
    *,
    output: str | None = None,
    keep: str | timedelta | None = None,
) -> Stream:
    """Calls a function when an epoch of a stream is over: all of it is committed, in all that is made from it.

    Epochs are the producer's, where the stream says `epoch=…`, else Penstock's own, by the number of their commit.
    The function gets an `Epoch` with its `number`. What it returns, a row of `output` or a list of rows, is a
    stream of this name with the epoch before it: that comes exactly once. The function itself is called at least
    once: where it does something elsewhere, the number tells whether it was done.
    """
    log, schema = _source_of(of, function, output)
    return stream(name, log, schema=schema, keep=keep)


def _source_of(of: Stream, function: OnEpoch, output: str | None) -> tuple[EpochsSource, Schema]:
    """The log and the columns of a stream that tells of epochs."""
    if not isinstance(of, Stream):
        raise DefinitionError(f"not a stream: {of!r}", hint="give one that app.stream(…) or app.iterate(…) made")
    if not callable(function):
        raise DefinitionError(f"not a function: {function!r}", hint="give one that takes an epoch: it has a .number")
    columns = () if output is None else Schema.parse(output).columns
    schema = Schema(((EPOCH, "bigint"), *columns))
    return EpochsSource(of, function, schema), schema
