"""What Spark's tasks do with a part of the past: the epoch's own job, and then deltas in parts by key."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from penstock.history.events.columns import COMMIT
from penstock.history.events.read import as_frame
from penstock.kernel.elements import MadeBefore
from penstock.kernel.plan import Plan
from penstock.kernel.reduce import Reduced
from penstock.kernel.share import Batch
from penstock.model.time import Instant
from penstock.model.windows import CountBased
from penstock.runtime.epoch import wire
from penstock.runtime.epoch.job import Job, task_number
from penstock.runtime.epoch.task import Task

#: Deltas of one part as one.
Combine: TypeAlias = Callable[[list[pl.DataFrame]], pl.DataFrame]
#: How many rows of a file are handed on at a time.
_ROWS = 250_000


@dataclass(frozen=True)
class Piece:
    """Some row groups of a file of the history; none are all. `commit` brought all of its rows, unless they say so."""

    path: str
    groups: tuple[int, ...] = ()
    commit: int | None = None


@dataclass(frozen=True)
class Pieces:
    """Files that the tasks read themselves, since rows that pass through Java come slower: by their number in `id`."""

    pieces: tuple[Piece, ...]
    columns: tuple[str, ...]
    after: int
    through: int
    start: Instant | None
    end: Instant | None
    rows: int  # of all files together

    def frames(self, numbers: Iterable[int]) -> Iterator[pl.DataFrame]:
        for number in numbers:
            piece = self.pieces[number]
            with pq.ParquetFile(piece.path) as file:
                groups = list(piece.groups) or list(range(file.num_row_groups))
                columns = [name for name in self.columns if name != COMMIT or piece.commit is None]
                for batch in file.iter_batches(_ROWS, row_groups=groups, columns=columns, use_threads=False):
                    frame = as_frame(pa.Table.from_batches([batch]))
                    if piece.commit is not None and COMMIT in self.columns:
                        frame = frame.with_columns(pl.lit(piece.commit, pl.Int64).alias(COMMIT))
                    yield self._mine(frame)

    def _mine(self, frame: pl.DataFrame) -> pl.DataFrame:
        rules = []
        if COMMIT in frame.columns:
            rules.append(pl.col(COMMIT).is_between(self.after, self.through, closed="right"))
        rules += [] if self.start is None else [pl.col("__at") >= self.start]
        rules += [] if self.end is None else [pl.col("__at") < self.end]
        return frame.filter(rules) if rules else frame


class PastTask(Task):
    """A task of the past. Rows that live had rejected are left out without a report."""

    def take(self, frame: pl.DataFrame) -> None:
        super().take(frame)
        for frames in self.refused.values():
            frames.clear()
        self.suspects.clear()

    def _reduced(self, rows: pl.DataFrame, before: MadeBefore | None = None) -> Batch:
        """Count windows take elements in the order of the commits that brought them: that is their source here."""
        (plan,) = self.job.sharing.plans
        if not isinstance(plan.view.windows, CountBased) or COMMIT not in rows.columns or not rows.height:
            return super()._reduced(rows, before)
        frames = []
        for (commit,), part in rows.partition_by(COMMIT, as_dict=True, maintain_order=True).items():
            deltas = super()._reduced(part).own[0].deltas
            frames.append(deltas.with_columns(pl.lit(commit, pl.Int32).alias("__source")))
        return Batch([], {0: Reduced(pl.concat(frames))}, {})


@dataclass(frozen=True)
class PastJob:
    """The reduction of a part of the past, for one view; its deltas in parts by key."""

    job: Job
    parts: int
    pieces: Pieces | None = None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        task = self._task()
        for frame in self._frames(task, batches):
            if frame.height:
                task.take(frame)
        deltas = self._deltas(task)
        if deltas is not None:
            (plan,) = self.job.sharing.plans
            yield from wire.as_batches(wire.deltas(n, part) for n, part in parted(plan, deltas, self.parts))
        yield from wire.as_batches([wire.row_count(task.rows)])

    def _task(self) -> PastTask:
        return PastTask(self.job, task_number())

    def _deltas(self, task: PastTask) -> pl.DataFrame | None:
        return self.job.sharing.combine(task.batches).own[0].deltas if task.batches else None

    def _frames(self, task: Task, batches: Iterable[pa.RecordBatch]) -> Iterator[pl.DataFrame]:
        if self.pieces is None:
            yield from task.frames(batches)
        else:
            for batch in batches:
                yield from self.pieces.frames(batch.column(0).to_pylist())


@dataclass(frozen=True)
class Combining:
    """After the exchange: the deltas of a part, from all tasks, as one."""

    combined: Combine

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        output = wire.read(wire.records_of(record for batch in batches for record in batch.to_pylist()))
        for part, frames in output.deltas.items():
            yield from wire.as_batches([wire.deltas(part, self.combined(frames))])
        yield from wire.as_batches([wire.row_count(output.rows)])


def parted(plan: Plan, deltas: pl.DataFrame, parts: int) -> Iterator[tuple[int, pl.DataFrame]]:
    """Deltas by key: all of a key are in one part, so that sessions and count windows stay together."""
    if parts == 1 or not plan.keys:
        yield 0, deltas
        return
    number = deltas.select(plan.keys).hash_rows(seed=7) % parts
    for (part,), frame in deltas.with_columns(number.alias("__part")).partition_by("__part", as_dict=True).items():
        yield int(part), frame.drop("__part")
