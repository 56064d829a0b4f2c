"""The log of a stream that a loop gives: an epoch is one job while it is small, and a job for each round where not.

The state of the keys of a loop is in the store, written by the epoch's own commit. If the loop fails on its input, the
epoch is repeated in halves: events at fault become dead letters, and all others count.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import polars as pl
import pyarrow as pa

from penstock.errors import PenstockError
from penstock.kernel.expressions import dtype
from penstock.model.loops import Iteration
from penstock.model.loops_rounds import LoopError, did_not_end
from penstock.model.stream import Stream
from penstock.model.time import Instant
from penstock.model.types import Schema
from penstock.runtime.derived.base import Derived, EpochInput, Memory, Step
from penstock.runtime.derived.commit_offsets import SCHEMA
from penstock.runtime.derived.commits import past_of
from penstock.runtime.derived.loops.machine import KEPT, LoopTally, Machine, after, machine_of
from penstock.runtime.derived.loops.memory import answering
from penstock.runtime.derived.loops.tasks import (
    APART,
    FAILED,
    MEMORY,
    REST,
    ROWS,
    TALLY,
    Alone,
    Entering,
    Showing,
    Working,
)
from penstock.runtime.derived.times import TIME
from penstock.runtime.epoch.wire import RECORD, pack, unpack
from penstock.sources.base import LATE, MALFORMED, REASON
from penstock.store.memory import REMEMBERED

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: The part of the memory that holds what keys have.
PART: Final = "state"
#: How many rows of the loop's stream a task reads at a time.
_CHUNK: Final = 50_000


class _Apart(Exception):
    """Tasks cannot reach the driver: it must send them what they need beforehand."""


@dataclass(frozen=True, repr=False)
class LoopSource(Derived):
    """What a loop shows, change by change."""

    iteration: Iteration

    @property
    def inputs(self) -> tuple[Stream, ...]:
        return self.iteration.input.sources

    def read(self, spark: SparkSession, schema: Schema, columns: Sequence[str]) -> DataFrame:
        return self.commits(spark, self.name)

    def decodes(self, schema: Schema) -> bool:
        return True

    def frames(self, rows: pl.DataFrame, schema: Schema) -> Iterator[pl.DataFrame]:
        for data in rows["data"]:
            yield unpack(data).select(*schema.names, MALFORMED, REASON, LATE)

    @contextmanager
    def step(self, epoch_input: EpochInput, memory: Memory, now: Instant) -> Iterator[Step]:
        read = [(kind, data) for kind, data in epoch_input.parts if kind != TIME]
        done = Epoch(self.iteration, self.name, epoch_input.spark, memory, read).run()
        tally = done.tally
        kept = done.memory.select(pl.lit(PART).alias("part"), "key", "value").cast(REMEMBERED)  # type: ignore[arg-type]
        counters = {"rounds": tally.rounds, "messages": tally.messages, "changed": kept.height}
        counters |= {"dropped": tally.dropped} if tally.dropped else {}
        notes = {"rounds": tally.rounds, "messages": tally.messages, "jobs": done.jobs}
        yield Step(self._given(done), memory=kept, counters=counters, notes=notes)

    def _given(self, done: EpochOutput) -> pa.Table:
        """The rows of the epoch, and its dead letters, as this log's `frames` reads them."""
        dead = pl.DataFrame(done.tally.refused, schema={MALFORMED: pl.String, REASON: pl.String}, orient="row")
        types = {name: dtype(kind) for name, kind in self.iteration.schema}
        nothing = {MALFORMED: pl.String(), REASON: pl.String(), LATE: pl.Boolean()}
        empty = pl.DataFrame(schema={**types, **nothing})
        frame = pl.concat([empty, *(some for some in (done.rows, dead) if some.height)], how="diagonal")
        data = [pack(frame[first : first + _CHUNK]) for first in range(0, max(1, frame.height), _CHUNK)]
        return pa.table({"data": pa.array(data, pa.binary())})

    def __repr__(self) -> str:
        return repr(self.iteration)


@dataclass
class EpochOutput:
    """The result of an epoch of a loop."""

    rows: pl.DataFrame
    memory: pl.DataFrame
    tally: LoopTally
    jobs: int


class Epoch:
    """One epoch of a loop on Spark."""

    def __init__(
        self, iteration: Iteration, name: str, spark: SparkSession, memory: Memory, read: list[tuple[str, bytes]]
    ) -> None:
        self._iteration, self._name, self._spark, self._memory, self._read = iteration, name, spark, memory, read
        self._jobs = 0
        self._machine: Machine = machine_of(iteration)

    def run(self) -> EpochOutput:
        events = sum(file.rows for _, data in self._read for file in past_of(data).files)
        if not events:
            return self._done([(TALLY, json.dumps(vars(LoopTally())).encode())])
        try:
            return self._tried(events)
        except LoopError as error:
            try:
                return self._alone(carefully=True)
            except _Apart as apart:
                raise PenstockError(
                    f"the loop '{self._name}' fails, and which events are at fault cannot be found out: {apart}",
                    detail=error.message,
                    hint="let the executors open connections to the driver",
                ) from error

    def _tried(self, events: int) -> EpochOutput:
        try:
            return self._alone() if events <= self._machine.most_events else self._entered()
        except _Apart:
            self._machine = machine_of(self._iteration)
            return self._entered(apart=True)

    # one task

    def _alone(
        self, carefully: bool = False, rest: bytes | None = None, so_far: LoopTally | None = None
    ) -> EpochOutput:
        """All rounds in one task, as long as there are not too many messages."""
        bound = 0 if carefully else self._machine.most_messages
        with answering(self._spark, self._fetch) as driver:
            alone = Alone(self._iteration, self._name, driver.address, bound, carefully, rest)
            try:
                records = self._do(self._read if rest is None else [("", b"")], alone, tasks=1)
            except _Apart:
                if driver.failure is not None:
                    raise driver.failure from None
                raise
        tally = _tally_of(records, so_far)
        left = [data for kind, data in records if kind == REST]
        if left:
            saved, inbox, number = pickle.loads(left[0])
            self._machine.load(saved)
            return self._rounds(inbox, number, tally)
        return self._done(records, tally)

    def _fetch(self, keys: pl.Series) -> pl.DataFrame:
        asked = keys.alias("key").to_frame().select(pl.lit(PART).alias("part"), "key")
        stored = self._memory.store.memory(self._memory.stream, asked)
        return stored.select("key", "value") if stored.height else pl.DataFrame(schema=KEPT)

    # many tasks

    def _entered(self, apart: bool = False) -> EpochOutput:
        """The events enter in many tasks; then round by round. Where they cannot ask the driver, each is a job."""
        records = self._do(self._read, Entering(self._iteration))
        inbox = self._machine.together([pickle.loads(data) for kind, data in records if kind == REST])
        return self._rounds(inbox, 0, _tally_of(records, None), apart)

    def _rounds(self, inbox: Any, number: int, tally: LoopTally, apart: bool = False) -> EpochOutput:
        """A job for each round, until there is little to do: that is for one task again."""
        machine = self._machine
        while size := machine.size(inbox):
            if number >= self._iteration.max_rounds:
                raise did_not_end(self._iteration, self._name)
            if not apart and size < machine.most_messages // 4:
                return self._alone(rest=pickle.dumps((machine.save(), inbox, number)), so_far=tally)
            asked = machine.unknown(inbox)
            if len(asked):
                machine.know(asked, self._fetch(asked))
            parts = machine.parts(inbox, self._spark.sparkContext.defaultParallelism)
            records = self._do([("", part) for part in parts], Working(self._iteration, number), column="data")
            inbox = machine.put([data for kind, data in records if kind == REST])
            inbox = after(machine, inbox, number, size, tally)
            number = tally.rounds
        records = self._do([("", pickle.dumps(machine.save()))], Showing(self._iteration), tasks=1, column="data")
        return self._done(records, tally)

    # jobs

    def _do(
        self, rows: list[tuple[str, bytes]], work: Any, tasks: int | None = None, column: str | None = None
    ) -> list[tuple[str, bytes]]:
        """Runs work in Spark's tasks; their records."""
        frame = self._spark.createDataFrame(rows, SCHEMA)
        frame = frame.coalesce(tasks) if tasks is not None else frame.repartition(min(len(rows), 64))
        input_frame = frame if column is None else frame.select(column)
        records = [(kind, bytes(data)) for kind, _, data in input_frame.mapInArrow(work, RECORD).collect()]
        self._jobs += 1
        for kind, data in records:
            if kind == FAILED:
                raise LoopError(data.decode())
            if kind == APART:
                raise _Apart(data.decode())
        return records

    def _done(self, records: list[tuple[str, bytes]], tally: LoopTally | None = None) -> EpochOutput:
        rows = [unpack(data) for kind, data in records if kind == ROWS]
        kept = [unpack(data) for kind, data in records if kind == MEMORY]
        nothing = pl.DataFrame(schema={name: dtype(kind) for name, kind in self._iteration.schema})
        if len(rows) > 1:
            raise PenstockError(f"the loop '{self._name}' got the end of an epoch from {len(rows)} tasks")
        return EpochOutput(
            rows[0] if rows else nothing,
            kept[0] if kept else pl.DataFrame(schema=KEPT),
            tally or LoopTally(),
            self._jobs,
        )


def _tally_of(records: list[tuple[str, bytes]], so_far: LoopTally | None) -> LoopTally:
    tally = so_far or LoopTally()
    for kind, data in records:
        if kind == TALLY:
            part = json.loads(data)
            tally.rounds = max(tally.rounds, part["rounds"])
            tally.messages += part["messages"]
            tally.dropped += part["dropped"]
            tally.refused += [(row, reason) for row, reason in part["refused"]]
    return tally
