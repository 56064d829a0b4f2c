"""The step of a large view in Spark's tasks: each task steps some shards and writes one file of segments.

A task with many panes writes them to a file too, so that they do not pass through the driver.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from penstock.runtime.epoch.numbered_job import NumberedJob
from penstock.runtime.epoch.wire import Record, late_rows, pane_file, pane_rows, read, segments
from penstock.state.pane_file import FiledPanes, PaneFile, filed, write_panes
from penstock.state.segment import shards
from penstock.state.spool import SpooledDeltas
from penstock.state.step import SegmentChange, SegmentChanges, ShardStep, ordered
from penstock.store.block import KEY, LARGEST, view_panes


@dataclass(frozen=True)
class ShardJob(NumberedJob):
    """One step, cut into tasks. `spooled` and `deltas` are what it merges; the latter travel with the job.

    A task with more than `few_panes` panes writes them to a file; without that number, all panes come to the driver.
    """

    step: ShardStep
    tasks: int
    write_id: str
    spooled: tuple[SpooledDeltas, ...] = ()
    deltas: tuple[pl.DataFrame, ...] = ()  # of all keys, by task
    few_panes: int | None = None

    def records(self, number: int) -> Sequence[Record]:
        step, name = self.step.within(shards(self.tasks)[number]), f"{self.write_id}.{number}-{uuid.uuid4().hex}"
        deltas = [rows for one in self.spooled if (rows := one.read(step.root, number)) is not None]
        deltas += [rows for rows in self.deltas[number : number + 1] if rows.height]
        with SegmentChanges(step.root, name) as changes:
            changes.add(step(deltas))
            change = changes.change(step.plan)
        records = [segments(number, change.added)]
        if self.few_panes is not None and change.panes.height > self.few_panes:
            records.append(pane_file(number, self._file(name, change.panes)))
        elif change.panes.height:
            records.append(pane_rows(number, change.panes))
        records += [late_rows(number, change.late)] if change.late.height else []
        return records

    def gathered(self, records: Sequence[Record]) -> SegmentChange:
        """Combines what all tasks have sent."""
        output, plan = read(records), self.step.plan
        empty = SegmentChange.empty(plan)
        panes = [frame for number in sorted(output.panes) for frame in output.panes[number]]
        added = tuple(segment for number in sorted(output.segments) for segment in output.segments[number])
        late, here = pl.concat([empty.late, *output.late]), ordered(plan, [empty.panes, *panes])
        if not output.pane_files:
            return SegmentChange(here, late, added)
        return SegmentChange(empty.panes, late, added, self._filed(here, list(output.pane_files.values())))

    def _file(self, name: str, panes: pl.DataFrame) -> PaneFile:
        return write_panes(self.step.root, name, view_panes(self.step.plan, panes))

    def _filed(self, panes: pl.DataFrame, files: list[PaneFile]) -> FiledPanes:
        """All panes in files, also those of tasks that had few."""
        if panes.height:
            files = [self._file(f"{self.write_id}.{uuid.uuid4().hex}", panes), *files]
        return filed(self.step.root, files, [KEY + name for name in self.step.plan.keys], LARGEST)
