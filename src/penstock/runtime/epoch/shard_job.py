"""The step of a large view in Spark's tasks: each task steps some shards and writes one file of segments."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from penstock.runtime.epoch.numbered_job import NumberedJob
from penstock.runtime.epoch.wire import Record, late_rows, pane_rows, read, segments
from penstock.state.segment import shards
from penstock.state.spool import SpooledDeltas
from penstock.state.step import SegmentChange, SegmentChanges, ShardStep, ordered


@dataclass(frozen=True)
class ShardJob(NumberedJob):
    """One step, cut into so many tasks. `spooled` and `deltas` are what it merges; the latter travel with the job."""

    step: ShardStep
    tasks: int
    write_id: str
    spooled: tuple[SpooledDeltas, ...] = ()
    deltas: tuple[pl.DataFrame, ...] = ()  # of all keys, by task

    def records(self, number: int) -> Sequence[Record]:
        step = self.step.within(shards(self.tasks)[number])
        deltas = [rows for one in self.spooled if (rows := one.read(step.root, number)) is not None]
        deltas += [rows for rows in self.deltas[number : number + 1] if rows.height]
        with SegmentChanges(step.root, f"{self.write_id}.{number}-{uuid.uuid4().hex}") as changes:
            changes.add(step(deltas))
            change = changes.change(step.plan)
        records = [segments(number, change.added)]
        records += [pane_rows(number, change.panes)] if change.panes.height else []
        records += [late_rows(number, change.late)] if change.late.height else []
        return records

    def gathered(self, records: Sequence[Record]) -> SegmentChange:
        """What all tasks have sent, put together."""
        output, plan = read(records), self.step.plan
        empty = SegmentChange.empty(plan)
        panes = [frame for number in sorted(output.panes) for frame in output.panes[number]]
        added = tuple(segment for number in sorted(output.segments) for segment in output.segments[number])
        return SegmentChange(ordered(plan, [empty.panes, *panes]), pl.concat([empty.late, *output.late]), added)
