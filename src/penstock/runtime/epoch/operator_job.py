"""The step of an operator in Spark's tasks: each task steps some shards and writes one file of segments."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from typing import Final

import numpy as np
import polars as pl

from penstock.kernel.hashing import hashes
from penstock.kernel.operators.base import Stepped, key_name
from penstock.runtime.code_watch import TaskWatch
from penstock.runtime.epoch.numbered_job import NumberedJob
from penstock.runtime.epoch.wire import Record, note, read, segments
from penstock.runtime.epoch.wire import stepped as stepped_part
from penstock.state.operator_state import OperatorStep
from penstock.state.segment import Segment, shards
from penstock.state.step import cut
from penstock.state.step_output import OutputFile, StepOutput

_PARTS: Final = ("late", "dead", "failed")


@dataclass(frozen=True)
class OperatorJob(NumberedJob):
    """One step, cut into tasks. `rows` travel with the job: by task, a frame for each input."""

    step: OperatorStep
    tasks: int
    write_id: str
    rows: tuple[tuple[pl.DataFrame, ...], ...]
    watch: TaskWatch | None = None  # reports user code that hangs

    @classmethod
    def of(
        cls, step: OperatorStep, tasks: int, write_id: str, rows: Sequence[pl.DataFrame], watch: TaskWatch | None = None
    ) -> OperatorJob:
        """The job with the rows of each task."""
        inputs = [parted_rows(frame, tasks) for frame in rows]
        return cls(step, tasks, write_id, tuple(zip(*inputs, strict=True)), watch)

    def records(self, number: int) -> list[Record]:
        """Does the work of one task; the records for the driver."""
        step = self.step.within(shards(self.tasks)[number])
        with nullcontext() if self.watch is None else self.watch.task(number):
            stepped, output, written = step(self.rows[number], f"{self.write_id}.{number}")
        files = [asdict(file) for file in output.files]
        return [
            segments(number, written),
            note({"order": list(stepped.order), "counters": dict(stepped.counters), "files": files}),
            stepped_part("rows", output.frame),
            *(stepped_part(part, getattr(stepped, part)) for part in _PARTS),
        ]


def parted_rows(rows: pl.DataFrame, tasks: int) -> list[pl.DataFrame]:
    """Rows by the shard of their key."""
    keys = [name for name in rows.columns if name.startswith(key_name(0)[:2])]
    hashed = hashes(rows.select(keys)) if keys else np.zeros(rows.height, np.uint64)
    return cut(rows, hashed, tasks)


def gathered_step(records: Sequence[Record], root: str) -> tuple[Stepped, StepOutput, list[Segment]]:
    """Combines what the tasks of a step have sent. `root` is the folder of their files."""
    output = read(records)
    written = [segment for number in sorted(output.segments) for segment in output.segments[number]]
    order = tuple(output.notes[0]["order"])
    rows = pl.concat(output.stepped["rows"]).sort(*order, maintain_order=True, nulls_last=True)
    files = tuple(OutputFile(**file) for values in output.notes for file in values["files"])
    parts = {part: pl.concat(output.stepped[part]) for part in _PARTS}
    stepped = Stepped(rows.clear(), **parts, state={}, order=order, counters=output.counters)
    return stepped, StepOutput(rows, files, root, order), written
