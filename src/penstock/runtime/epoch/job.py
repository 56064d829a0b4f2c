"""The work of Spark's tasks on their part of an epoch: values that are sent to them.

A job knows the watermarks in force, the views of the moment and the epoch's number; nothing of it is left behind when
the epoch is done.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Final

import polars as pl
import pyarrow as pa

from penstock.history.events.writer import Keeping
from penstock.kernel.admit import admit
from penstock.kernel.arrow import for_spark
from penstock.kernel.deduplicate import identify
from penstock.kernel.operators.rows import rows_in
from penstock.kernel.plan import PLACE, Plan
from penstock.kernel.share import Sharing
from penstock.model.counters import collected
from penstock.model.stream import Branch, Stream
from penstock.model.time import Instant
from penstock.runtime.code_watch import TaskWatch
from penstock.runtime.epoch.ages import arrival_times
from penstock.runtime.epoch.task import Task
from penstock.runtime.epoch.wire import as_batches, ids, note, spooled
from penstock.sources import MALFORMED, REASON
from penstock.sources.base import ARRIVED, EXTENT, LATE
from penstock.sources.files.ranges import Slices
from penstock.state.ids import as_bytes, parted_ids
from penstock.state.spool import Receivers, Spool

#: All ids go to the driver.
NOBODY: Final = Receivers(0, 1, 1 << 62)


@dataclass(frozen=True)
class RowsOut:
    """A flow without state, whose rows go to sinks: its name, and its columns as the plan's elements have them."""

    name: str
    plan: Plan
    columns: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class OperatorInput:
    """An input of an operator: its name, its plan, and the event's columns. `stream` is what the operator gives.

    `numbers` are those of the streams, or feeds, that the operator reads.
    """

    name: str
    stream: str
    plan: Plan
    columns: tuple[str, ...]
    numbers: Mapping[str, int]

    def rows(self, branch: Branch, elements: pl.LazyFrame) -> pl.DataFrame:
        """The rows for the operator from one branch."""
        return rows_in(self.plan, self.columns, elements, self.numbers[branch.source.name])


@dataclass(frozen=True)
class Job:
    """The reduction of one epoch of one feed, for all its views.

    `source` is the stream that it comes from, `stream` what the kernel takes the feed for. `place` is the partition of
    rows that DataFrame code made; such rows say nothing about the watermark. `keeping` says where the history keeps the
    rows that the stream accepts.
    """

    source: Stream
    stream: Stream
    columns: tuple[str, ...]
    views: tuple[str, ...]
    sharing: Sharing
    watermarks: tuple[Instant, ...]
    epoch: int
    now: Instant
    newest: Instant
    sampled: bool = False
    place: int | None = None
    first_task: int = 0  # from which tasks are counted in the offsets of rows that have none
    decoded: bool = False
    outputs: tuple[RowsOut, ...] = ()
    inputs: tuple[OperatorInput, ...] = ()
    left_out: pl.DataFrame | None = None  # places of rows that do not count, with kind and reason
    failed: pl.DataFrame | None = None  # numbers of rows on which Catalyst failed, with column and reason
    keeping: Keeping | None = None
    positions: Mapping[str, range] | None = None  # of each file's rows, in a source of files
    slices: Slices = ()  # of the epoch's files, where tasks get their numbers
    spool: Spool | None = None  # where the deltas of large views go
    watch: TaskWatch | None = None  # reports user code that hangs

    @property
    def name(self) -> str:
        """The stream's name."""
        return self.source.name

    def without(self, left_out: pl.DataFrame) -> Job:
        """The same job, leaving out rows (`__partition`, `__offset`) that a first pass has found."""
        return replace(self, left_out=left_out)

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        number = task_number()
        task = Task(self, number)
        try:
            with collected() as counts, nullcontext() if self.watch is None else self.watch.task(number):
                if self.failed is not None:  # then views do not share what functions have made
                    counts.once = set()
                for frame in task.frames(batches):
                    if frame.height:
                        task.take(frame)
            counters = counts.totals()
            yield from as_batches([*task.records(), *([note({"counters": counters})] if counters else [])])
        except BaseException:
            task.abandon()
            raise


@dataclass(frozen=True)
class IdJob:
    """The first pass over a stream with ids: each row's id, time and place. Many go to the tasks with the shards."""

    job: Job
    spool: Spool | None = None
    receivers: Receivers = NOBODY

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        stream = self.job.stream
        task = Task(self.job, task_number())
        frames = []
        for frame in task.frames(batches):
            rows = task.timely(task.rows_of(frame))
            rows = identify(stream, admit(stream, rows, self.job.now).rows).rows
            frames.append(rows.filter(pl.col("__id").is_not_null()).select("__id", "__at", *PLACE))
        if not frames:
            return
        rows = pl.concat(frames)
        if self.spool is None:
            yield from as_batches([ids(rows)])
            return
        rows = as_bytes(rows)
        few = rows.height <= self.receivers.few
        yield from as_batches(
            [ids(rows) if few else spooled(0, self.spool.put(parted_ids(rows, self.receivers.count)))]
        )


@dataclass(frozen=True)
class Decoding:
    """The rows of a log that only Python can decode, for Spark to go on with: its columns and their places."""

    job: Job
    columns: tuple[str, ...]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        task = Task(self.job, task_number())
        for frame in task.frames(batches):
            rows = task.placed(frame)
            optional = {MALFORMED: pl.String(), REASON: pl.String(), LATE: pl.Boolean(), EXTENT: pl.String()}
            lacking = [pl.lit(None, kind).alias(name) for name, kind in optional.items() if name not in rows.columns]
            rows = rows.with_columns(*lacking, arrival_times(frame).alias(ARRIVED))
            rows = rows.select(*self.columns, *optional, ARRIVED, *PLACE)
            yield from _batches_for_spark(rows)


@dataclass(frozen=True)
class Admitting:
    """The rows that a stream accepts, for DataFrame code: neither malformed, nor dead, nor known by their id."""

    job: Job
    columns: tuple[str, ...]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        task = Task(self.job, task_number())
        for batch in batches:
            if batch.num_rows:
                index = pa.array(range(batch.num_rows), pa.int64())
                (frame,) = task.frames([batch.append_column("__index", index)])
                accepted = task.accepted(frame).rows.sort("__index")
                taken = batch.select(self.columns).take(pa.array(accepted["__index"].to_list(), pa.int64()))
                for name in PLACE:
                    taken = taken.append_column(name, accepted[name].to_arrow())
                yield taken


@dataclass(frozen=True)
class DecodingAndAdmitting:
    """The same for a log that only Python can decode, in one pass."""

    job: Job
    columns: tuple[str, ...]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        task = Task(self.job, task_number())
        for frame in task.frames(batches):
            yield from _batches_for_spark(task.accepted(frame).rows.sort(PLACE).select(*self.columns, *PLACE))


def _batches_for_spark(rows: pl.DataFrame) -> list[pa.RecordBatch]:
    """Rows as Spark takes them from a task."""
    table = rows.to_arrow()
    batches: list[pa.RecordBatch] = table.cast(
        pa.schema([(field.name, for_spark(field.type)) for field in table.schema])
    ).to_batches()
    return batches


def task_number() -> int:
    """The number of the task that this runs in."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return 0 if context is None else int(context.partitionId())
