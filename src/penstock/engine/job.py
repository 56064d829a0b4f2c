"""What a task does with its part of an epoch: rows in, the deltas of all views out, as a few binary records.

A job is a value that travels to the tasks. It knows the watermarks in force, the views of the moment and the epoch's
number; nothing of it is left behind when the epoch is done.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import polars as pl
import pyarrow as pa

from penstock.kernel.admit import admit
from penstock.kernel.plan import Plan
from penstock.kernel.share import Batch, Sharing
from penstock.logs import MALFORMED, Log
from penstock.model.stream import Stream
from penstock.model.time import Instant
from penstock.model.watermarks import Observation, Seen

#: What `mapInArrow` gives: a kind, a number, and the bytes of a frame or of JSON.
RECORD = "kind string, number int, data binary"
_SCHEMA = pa.schema([("kind", pa.string()), ("number", pa.int32()), ("data", pa.binary())])
#: After so many batches a task combines what it has, so that its memory follows the groups.
COMBINE_EVERY = 8
#: A row's place in a log that has no positions of its own: epoch, task and row, in one number.
_TASK_BITS, _ROW_BITS = 12, 26

REFUSED = {
    "stream": pl.String(),
    "view": pl.String(),
    "partition": pl.Int32(),
    "offset": pl.Int64(),
    "at": pl.Int64(),
    "reason": pl.String(),
    "row": pl.String(),
}


@dataclass(frozen=True)
class Job:
    """The reduction of one epoch of one stream, for all its views."""

    stream: Stream
    columns: tuple[str, ...]
    views: tuple[str, ...]
    sharing: Sharing
    watermarks: tuple[Instant, ...]
    epoch: int
    now: Instant
    newest: Instant
    excluded: frozenset[int] = field(default_factory=frozenset)  # offsets of duplicates

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        task = _Task(self, 0 if context is None else context.partitionId())
        for batch in batches:
            if batch.num_rows:
                task.take(batch)
        records = list(task.records())
        if records:
            yield pa.RecordBatch.from_arrays([pa.array(c, f.type) for c, f in zip(zip(*records, strict=True), _SCHEMA, strict=True)], schema=_SCHEMA)


class _Task:
    """One task's work: batch by batch, combined now and then."""

    def __init__(self, job: Job, number: int) -> None:
        self.job = job
        self.offset = ((job.epoch << _TASK_BITS) + number) << _ROW_BITS
        self.batches: list[Batch] = []
        self.refused: dict[str, list[pl.DataFrame]] = {"late": [], "dead": []}
        self.suspects: list[pl.DataFrame] = []
        self.partitions: dict[int, Seen] = {}
        self.lateness: dict[int, int] = {}
        self.rows = 0

    def take(self, batch: pa.RecordBatch) -> None:
        job = self.job
        frame = pl.from_arrow(pa.Table.from_batches([batch]))
        assert isinstance(frame, pl.DataFrame)
        log = job.stream.log
        assert isinstance(log, Log)
        rows = self._placed(frame, log)
        rows = self._without_malformed(rows)
        if job.excluded:
            rows = rows.filter(~pl.col("__offset").is_in(list(job.excluded)))
        admitted = admit(job.stream, rows, job.now, job.newest)
        self._observe(admitted.observed)
        self._refuse("dead", None, admitted.dead.select("__partition", "__offset", "__reason"), rows)
        reduced = job.sharing.reduce(admitted.rows, job.watermarks)
        for number, own in reduced.own.items():
            plan = job.sharing.plans[number]
            self._refuse("dead", job.views[number], own.dead.select("__partition", "__offset", "__reason"), admitted.rows)
            self._refuse_late(number, own.late, admitted.rows)
            self._suspect(plan, own.deltas, admitted.rows)
            own.late, own.dead = own.late.clear(), own.dead.clear()
        for number, late in reduced.late.items():
            self._refuse_late(number, late, admitted.rows)
        reduced.late = {}
        self.batches.append(reduced)
        if len(self.batches) >= COMBINE_EVERY:
            self.batches = [job.sharing.combine(self.batches)]

    def _placed(self, frame: pl.DataFrame, log: Log) -> pl.DataFrame:
        """The stream's rows with their position; one that the log does not know is made of epoch, task and row."""
        rows = log.decode(frame, self.job.stream.schema) if "__number" in frame.columns else frame
        missing = [
            pl.lit(None).cast(_dtype(kind)).alias(name)
            for name, kind in self.job.stream.schema
            if name not in rows.columns
        ]
        first = self.offset + self.rows
        self.rows += rows.height
        return rows.with_columns(
            *missing,
            pl.lit(0, pl.Int32).alias("__partition"),
            pl.int_range(first, first + rows.height, dtype=pl.Int64).alias("__offset"),
            pl.lit(0, pl.Int32).alias("__source"),
        )

    def _without_malformed(self, rows: pl.DataFrame) -> pl.DataFrame:
        if MALFORMED not in rows.columns:
            return rows
        bad = rows.filter(pl.col(MALFORMED).is_not_null())
        if bad.height:
            self.refused["dead"].append(
                bad.select(
                    pl.lit(self.job.stream.name).alias("stream"),
                    pl.lit(None, pl.String).alias("view"),
                    pl.col("__partition").alias("partition"),
                    pl.col("__offset").alias("offset"),
                    pl.lit(None, pl.Int64).alias("at"),
                    pl.lit("the row does not fit the stream's schema").alias("reason"),
                    pl.col(MALFORMED).alias("row"),
                )
            )
            rows = rows.filter(pl.col(MALFORMED).is_null())
        return rows.drop(MALFORMED)

    def _refuse(self, kind: str, view: str | None, found: pl.DataFrame, rows: pl.DataFrame) -> None:
        """Rows that were refused, with their columns as JSON."""
        if not found.height:
            return
        at = pl.col("__at") if "__at" in rows.columns else pl.lit(None, pl.Int64)
        joined = rows.join(found, on=["__partition", "__offset"])
        self.refused[kind].append(
            joined.select(
                pl.lit(self.job.stream.name).alias("stream"),
                pl.lit(view, pl.String).alias("view"),
                pl.col("__partition").alias("partition"),
                pl.col("__offset").alias("offset"),
                at.alias("at"),
                pl.col("__reason").alias("reason"),
                pl.struct(self.job.columns).struct.json_encode().alias("row"),
            )
        )

    def _refuse_late(self, number: int, late: pl.DataFrame, rows: pl.DataFrame) -> None:
        if late.height:
            found = late.select("__partition", "__offset", late_reason().alias("__reason"))
            self._refuse("late", self.job.views[number], found, rows)

    def _suspect(self, plan: Plan, deltas: pl.DataFrame, rows: pl.DataFrame) -> None:
        """Rows of merging windows that the merge may find to be late travel along."""
        if plan.merging:
            alone = deltas.filter(pl.col("__offset").is_not_null()).select("__partition", "__offset").unique()
            if alone.height:
                found = rows.join(alone, on=["__partition", "__offset"])
                self.suspects.append(
                    found.select(
                        "__partition", "__offset", "__at", pl.struct(self.job.columns).struct.json_encode().alias("row")
                    )
                )

    def _observe(self, observed: Observation) -> None:
        for number, seen in observed.partitions.items():
            before = self.partitions.get(number, seen)
            marks = [m for m in (before.mark, seen.mark) if m is not None]
            self.partitions[number] = Seen(max(before.newest, seen.newest), max(marks, default=None))
        for bucket, count in observed.lateness.items():
            self.lateness[bucket] = self.lateness.get(bucket, 0) + count

    def records(self) -> Iterator[tuple[str, int, bytes]]:
        if self.rows:
            seen = {"partitions": {n: (s.newest, s.mark) for n, s in self.partitions.items()}, "lateness": self.lateness}
            yield "observed", self.rows, json.dumps(seen).encode()
        for kind, frames in self.refused.items():
            if frames:
                yield kind, 0, pack(pl.concat(frames))
        if self.suspects:
            yield "suspect", 0, pack(pl.concat(self.suspects).unique(["__partition", "__offset"]))
        if self.batches:
            batch = self.job.sharing.combine(self.batches)
            for number, base in enumerate(batch.bases):
                yield "base", number, pack(base)
            for number, own in batch.own.items():
                yield "own", number, pack(own.deltas)


def late_reason() -> pl.Expr:
    """Why a row is late, in words."""
    some = pl.format("{} of its {} windows had closed", "__missed", "__windows")
    return pl.when(pl.col("__windows") == 1).then(pl.lit("its window had closed")).otherwise(some)


def pack(frame: pl.DataFrame) -> bytes:
    """A frame as bytes: Arrow's own format."""
    buffer = io.BytesIO()
    frame.write_ipc(buffer)
    return buffer.getvalue()


def unpack(data: bytes) -> pl.DataFrame:
    return pl.read_ipc(io.BytesIO(data))


def _dtype(kind: str) -> pl.DataType:
    from penstock.kernel.expressions import dtype

    return dtype(kind)
