"""What a task does with its part of an epoch: rows in, the deltas of all views out, as a few binary records.

A job is a value that travels to the tasks. It knows the watermarks in force, the views of the moment and the epoch's
number; nothing of it is left behind when the epoch is done.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import polars as pl
import pyarrow as pa

from penstock.kernel.admit import Admitted, admit
from penstock.kernel.elements import compiled
from penstock.kernel.expressions import dtype
from penstock.kernel.plan import Plan
from penstock.kernel.share import Batch, Sharing
from penstock.logs import MALFORMED, Log
from penstock.model.stream import Stream
from penstock.model.time import Instant
from penstock.model.watermarks import Observation

#: What `mapInArrow` gives: a kind, a number, and the bytes of a frame or of JSON.
RECORD = "kind string, number int, data binary"
_SCHEMA = pa.schema([("kind", pa.string()), ("number", pa.int32()), ("data", pa.binary())])
#: After so many batches a task combines what it has, so that its memory follows the groups.
COMBINE_EVERY = 8
#: A row's place in a log that has no positions of its own: epoch, task and row, in one number.
_TASK_BITS, _ROW_BITS = 12, 26

#: How many rows of a task are shown to the driver, where it asks what they look like.
SAMPLE = 8192


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
    sampled: bool = False
    left_out: pl.DataFrame | None = None  # places of rows that do not count, with kind and reason

    def without(self, left_out: pl.DataFrame) -> Job:
        """The same job, leaving out rows (`__partition`, `__offset`) of which a first pass has told that they must."""
        return replace(self, left_out=left_out)

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        task = _Task(self, 0 if context is None else context.partitionId())
        for batch in batches:
            if batch.num_rows:
                task.take(batch)
        yield from as_batches(task.records())


@dataclass(frozen=True)
class IdJob:
    """The first pass over a stream with ids: each row's id, time and place."""

    job: Job

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        stream = self.job.stream
        assert stream.id is not None
        context = TaskContext.get()
        task = _Task(self.job, 0 if context is None else context.partitionId())
        identity = compiled(stream.id, stream.schema)
        frames = []
        for batch in batches:
            rows = admit(stream, task.rows_of(batch), self.job.now).rows.with_columns(identity.value.alias("__id"))
            if identity.error is not None:
                rows = rows.filter(identity.error.is_null())
            frames.append(rows.filter(pl.col("__id").is_not_null()).select("__id", "__at", "__partition", "__offset"))
        if frames:
            yield from as_batches([("ids", 0, pack(pl.concat(frames)))])


def as_batches(records: Iterable[tuple[str, int, bytes]]) -> Iterator[pa.RecordBatch]:
    """Records in the form that goes back to the driver."""
    rows = list(records)
    if rows:
        columns = [pa.array(column, field.type) for column, field in zip(zip(*rows, strict=True), _SCHEMA, strict=True)]
        yield pa.RecordBatch.from_arrays(columns, schema=_SCHEMA)


class _Task:
    """One task's work: batch by batch, combined now and then."""

    def __init__(self, job: Job, number: int) -> None:
        self.job = job
        self.offset = ((job.epoch << _TASK_BITS) + number) << _ROW_BITS
        self.batches: list[Batch] = []
        self.refused: dict[str, list[pl.DataFrame]] = {"late": [], "duplicate": [], "dead": []}
        self.sample: pl.DataFrame | None = None
        self.suspects: list[pl.DataFrame] = []
        self.observed = Observation()
        self.rows = 0

    def rows_of(self, batch: pa.RecordBatch) -> pl.DataFrame:
        """The stream's rows in a batch, with their places; malformed ones are refused."""
        frame = pl.from_arrow(pa.Table.from_batches([batch]))
        assert isinstance(frame, pl.DataFrame)
        log = self.job.stream.log
        rows = log.decode(frame, self.job.stream.schema) if isinstance(log, Log) else frame
        return self._without_malformed(self._placed(rows))

    def take(self, batch: pa.RecordBatch) -> None:
        job = self.job
        rows = self.rows_of(batch)
        admitted = admit(job.stream, rows, job.now, job.newest)
        self.observed = self.observed.merge(admitted.observed)
        self._refuse("dead", None, admitted.dead, rows)
        if job.left_out is not None:
            self._leave_out(job.left_out, admitted)
        if job.sampled and self.sample is None:
            self.sample = admitted.rows.head(SAMPLE)
        if not job.views:
            return
        reduced = job.sharing.reduce(admitted.rows, job.watermarks)
        for number, own in reduced.own.items():
            self._refuse("dead", job.views[number], own.dead, admitted.rows)
            self._refuse_late(number, own.late, admitted.rows)
            self._suspect(job.sharing.plans[number], own.deltas, admitted.rows)
            own.late, own.dead = own.late.clear(), own.dead.clear()
        for number, late in reduced.late.items():
            self._refuse_late(number, late, admitted.rows)
        reduced.late = {}
        self.batches.append(reduced)
        if len(self.batches) >= COMBINE_EVERY:
            self.batches = [job.sharing.combine(self.batches)]

    def _placed(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Rows with a position; where the log has none, it is made of epoch, task and row."""
        missing = [
            pl.lit(None, dtype(kind)).alias(name) for name, kind in self.job.stream.schema if name not in rows.columns
        ]
        first = self.offset + self.rows
        self.rows += rows.height
        if "__offset" not in rows.columns:
            missing += [
                pl.lit(0, pl.Int32).alias("__partition"),
                pl.int_range(first, first + rows.height, dtype=pl.Int64).alias("__offset"),
            ]
        return rows.with_columns(*missing, pl.lit(0, pl.Int32).alias("__source"))

    def _without_malformed(self, rows: pl.DataFrame) -> pl.DataFrame:
        if MALFORMED not in rows.columns:
            return rows
        bad = rows.filter(pl.col(MALFORMED).is_not_null())
        if bad.height:
            reason = pl.lit("the row does not fit the stream's schema").alias("__reason")
            told = bad.select("__partition", "__offset", pl.col(MALFORMED).alias("row"), reason)
            self.refused["dead"].append(refusals(self.job.stream.name, None, told))
            rows = rows.filter(pl.col(MALFORMED).is_null())
        return rows.drop(MALFORMED)

    def _leave_out(self, left_out: pl.DataFrame, admitted: Admitted) -> None:
        """Refuses the rows that the pass over the ids has told apart, and those whose id cannot be computed."""
        stream, rows = self.job.stream, admitted.rows
        found = rows.join(left_out, on=["__partition", "__offset"])
        for kind in ("duplicate", "late"):
            told = found.filter(pl.col("__kind") == kind)
            if told.height:
                self.refused[kind].append(refusals(stream.name, None, self._with_json(told)))
        admitted.rows = rows.join(left_out, on=["__partition", "__offset"], how="anti")
        identity = compiled(stream.id or "null", stream.schema)
        if identity.error is not None:
            told = admitted.rows.with_columns(identity.error.alias("__reason"))
            failed = told.filter(pl.col("__reason").is_not_null())
            if failed.height:
                self.refused["dead"].append(refusals(stream.name, None, self._with_json(failed)))
                admitted.rows = told.filter(pl.col("__reason").is_null()).drop("__reason")

    def _refuse(self, kind: str, view: str | None, found: pl.DataFrame, rows: pl.DataFrame) -> None:
        """Rows that were refused, with their columns as JSON."""
        if found.height:
            told = rows.drop("__source").join(found, on=["__partition", "__offset"])
            self.refused[kind].append(refusals(self.job.stream.name, view, self._with_json(told)))

    def _with_json(self, rows: pl.DataFrame) -> pl.DataFrame:
        return rows.with_columns(pl.struct(self.job.columns).struct.json_encode().alias("row"))

    def _refuse_late(self, number: int, late: pl.DataFrame, rows: pl.DataFrame) -> None:
        if late.height:
            found = late.with_columns(late_reason().alias("__reason"))
            self._refuse("late", self.job.views[number], found, rows)

    def _suspect(self, plan: Plan, deltas: pl.DataFrame, rows: pl.DataFrame) -> None:
        """Rows of merging windows that the merge may find to be late travel along."""
        if plan.merging:
            alone = deltas.filter(pl.col("__offset").is_not_null()).select("__partition", "__offset").unique()
            if alone.height:
                found = self._with_json(rows.join(alone, on=["__partition", "__offset"]))
                self.suspects.append(found.select("__partition", "__offset", "__at", "row"))

    def records(self) -> Iterator[tuple[str, int, bytes]]:
        if self.rows:
            seen = {
                "partitions": {n: (s.newest, s.mark) for n, s in self.observed.partitions.items()},
                "lateness": self.observed.lateness,
            }
            yield "observed", self.rows, json.dumps(seen).encode()
        for kind, frames in self.refused.items():
            if frames:
                yield kind, 0, pack(pl.concat(frames))
        if self.sample is not None:
            yield "sample", 0, pack(self.sample)
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


def refusals(stream: str, view: str | None, rows: pl.DataFrame) -> pl.DataFrame:
    """Refused rows (place, reason, the row as JSON) as the store keeps them."""
    have = rows.columns
    return rows.select(
        pl.lit(stream).alias("stream"),
        pl.lit(view, pl.String).alias("view"),
        pl.col("__partition").alias("partition"),
        pl.col("__offset").alias("offset"),
        (pl.col("__at") if "__at" in have else pl.lit(None, pl.Int64)).alias("at"),
        pl.col("__reason").alias("reason"),
        "row",
        (pl.col("__missed") if "__missed" in have else pl.lit(0, pl.Int64)).alias("missed"),
        (pl.col("__windows") if "__windows" in have else pl.lit(0, pl.Int64)).alias("windows"),
    )


def pack(frame: pl.DataFrame) -> bytes:
    """A frame as bytes: Arrow's own format."""
    buffer = io.BytesIO()
    frame.write_ipc(buffer)
    return buffer.getvalue()


def unpack(data: bytes) -> pl.DataFrame:
    return pl.read_ipc(io.BytesIO(data))
