"""The step of a large view in Spark's tasks: each task steps some shards and writes one file of segments."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import polars as pl
import pyarrow as pa

from penstock.runtime.epoch.job import task_number
from penstock.runtime.epoch.wire import Record, as_batches, late_rows, pane_rows, segments
from penstock.state.segment import shards
from penstock.state.spool import SpooledDeltas
from penstock.state.step import SegmentChanges, ShardStep


@dataclass(frozen=True)
class ShardJob:
    """One step, cut into so many tasks. `spooled` and `deltas` are what it merges; the latter travel with the job."""

    step: ShardStep
    tasks: int
    write_id: str
    spooled: tuple[SpooledDeltas, ...] = ()
    deltas: tuple[pl.DataFrame, ...] = ()  # of all keys, by task

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:  # the rows say nothing but that there is a task
            pass
        yield from as_batches(self.records(task_number()))

    def records(self, number: int) -> Sequence[Record]:
        """What one task does, for the driver."""
        step = self.step.within(shards(self.tasks)[number])
        deltas = [rows for one in self.spooled if (rows := one.read(step.root, number)) is not None]
        deltas += [rows for rows in self.deltas[number : number + 1] if rows.height]
        changes = SegmentChanges(step.root, f"{self.write_id}.{number}-{uuid.uuid4().hex}")
        try:
            changes.add(step(deltas))
            change = changes.change(step.plan)
        except BaseException:
            changes.abandon()
            raise
        records = [segments(number, change.added)]
        records += [pane_rows(number, change.panes)] if change.panes.height else []
        records += [late_rows(number, change.late)] if change.late.height else []
        return records
