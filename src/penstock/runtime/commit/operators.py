"""Steps joins, processors and patterns: on the driver if there is little to do, else in Spark's tasks."""

from __future__ import annotations

import time as clock_time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import polars as pl

from penstock.dataflow.operator import INPUTS, Operator
from penstock.dataflow.operators import input_name, operator_of
from penstock.kernel.operators.base import KernelOperator, OperatorTime, Stepped, column_name
from penstock.kernel.plan import POSITION, Plan
from penstock.model.stream import Stream
from penstock.model.table import Snapshot
from penstock.model.time import BEGINNING, END, Instant
from penstock.model.view import View
from penstock.model.watermarks import Tracker, ViewTime
from penstock.runtime.commit.shards import Shards
from penstock.runtime.epoch.entry import rest_of
from penstock.runtime.epoch.job import OperatorInput
from penstock.runtime.epoch.operator_job import OperatorJob, gathered_step
from penstock.runtime.epoch.wire import as_json, refusals
from penstock.state.operator_state import LIVE as LIVE
from penstock.state.operator_state import OperatorChange, OperatorStep, SegmentRows, StepProgress
from penstock.state.segment import Segment
from penstock.state.step_output import MANY_ROWS, StepOutput
from penstock.store.operator_timings import OperatorTiming

if TYPE_CHECKING:
    from penstock.store import Store


@dataclass
class OperatorRuntime:
    """An operator as an engine runs it: by the stream that it gives, with its plans by input and their time."""

    name: str
    operator: Operator
    kernel: KernelOperator
    time: ViewTime
    plans: list[Plan] = field(default_factory=list)
    seen: StepProgress = field(default_factory=StepProgress)

    @property
    def views(self) -> dict[str, View]:
        """What comes to it, by the names of its inputs."""
        return {input_name(self.name, number): view for number, view in enumerate(self.operator.views)}

    def take_tables(self, versions: Mapping[str, Snapshot]) -> None:
        """Switches its code to these versions of its tables."""
        if self.operator.tables:
            own = {name: versions[name] for name in self.operator.tables}
            self.kernel = self.operator.with_tables(self.kernel, own)

    @property
    def sources(self) -> list[Stream]:
        """The streams that its inputs begin with."""
        return [source for flow in self.operator.inputs for source in flow.sources]

    @property
    def inputs(self) -> list[OperatorInput]:
        """What comes to it. Its streams are numbered over all inputs, in the order in which they are named."""
        feeds = list(dict.fromkeys(feed for plan in self.plans for feed in plan.sources))
        numbers = {feed: number for number, feed in enumerate(feeds)}
        columns = self.operator.columns
        return [
            OperatorInput(input_name(self.name, number), self.name, plan, columns[number], numbers)
            for number, plan in enumerate(self.plans)
        ]


def operator_runtime(
    stream: Stream, store: Store, tracker_of: Callable[[Stream], Tracker | None]
) -> OperatorRuntime | None:
    """The operator that gives a stream, with the state that the store has of it; None for any other stream."""
    operator = operator_of(stream)
    if operator is None:
        return None
    kernel = operator.kernel()
    state = store.operators.prepare(stream.name, operator.definition, kernel.kinds)
    sources = [source for flow in operator.inputs for source in flow.sources]
    trackers = {source.name: tracker for source in sources if (tracker := tracker_of(source)) is not None}
    time = ViewTime(trackers, state.expired, operator.versioned)
    return OperatorRuntime(stream.name, operator, kernel, time)


@dataclass(frozen=True)
class OperatorOutcome:
    """The result of one commit of an operator: its rows, its changed state, and what it rejected, by kind.

    `timing` is None if there was nothing to do.
    """

    rows: StepOutput
    change: OperatorChange
    refused: dict[str, pl.DataFrame]
    counters: dict[str, int]
    timing: OperatorTiming | None = None


class OperatorSteps:
    """Steps operators, each in the tasks that its rows are worth."""

    def __init__(self, store: Store, shards: Shards) -> None:
        self._store, self._shards = store, shards

    def _due_rows(self, operator: OperatorRuntime, time: OperatorTime) -> int:
        state = self._store.operators.of(operator.name)
        kinds = operator.kernel.kinds.values()
        return sum(SegmentRows(state, kind, seen=operator.seen).due_rows(time.after, time.now) for kind in kinds)

    def step(
        self, operator: OperatorRuntime, rows: Sequence[pl.DataFrame], time: OperatorTime, write_id: str
    ) -> OperatorOutcome:
        """One commit of an operator."""
        state = self._store.operators.of(operator.name)
        many = self._shards.many_rows or MANY_ROWS
        work = OperatorStep(state, operator.kernel, time, state.next_run, seen=operator.seen, many_rows=many)
        count = sum(frame.height for frame in rows) + self._due_rows(operator, time)
        if not count:
            return OperatorOutcome(StepOutput(rows[0].clear()), OperatorChange((), 0, time.after), {}, {})
        started, jobs = clock_time.perf_counter(), self._shards.jobs
        tasks = self._shards.tasks_for(count, operator.kernel.few_rows)
        if tasks > 1:
            job = OperatorJob.of(work, tasks, write_id, rows, self._shards.watch)
            stepped, output, added = gathered_step(self._shards.run(job), state.root)
        else:
            stepped, output, added = work(rows, f"{write_id}.driver")
        change = OperatorChange(tuple(added), output.count, time.after)
        counters = {f"{operator.name}.{name}": value for name, value in stepped.counters.items()}
        counters[f"{operator.name}.{INPUTS}"] = sum(frame.height for frame in rows)
        refused = self._refused(operator, rows, stepped)
        timing = OperatorTiming(clock_time.perf_counter() - started, self._shards.jobs - jobs)
        return OperatorOutcome(output, change, refused, counters, timing)

    def _refused(
        self, operator: OperatorRuntime, rows: Sequence[pl.DataFrame], stepped: Stepped
    ) -> dict[str, pl.DataFrame]:
        """What an operator rejected, each row with the columns in which it came."""
        frames: dict[str, list[pl.DataFrame]] = {}
        for kind, places in (("late", stepped.late), ("dead", stepped.dead)):
            for number, into in enumerate(operator.inputs) if places.height else ():
                came = rows[number].rename({column_name(name): name for name in into.columns}, strict=False)
                rejected = came.join(places, on=list(POSITION), maintain_order="left")
                rejected = rejected.with_columns(as_json(rejected, into.columns).alias("row"))
                if kind == "dead":
                    rejected = rejected.with_columns(rest_of(rejected, number))
                frames.setdefault(kind, []).append(refusals(operator.name, None, rejected))
        if stepped.failed.height:
            nowhere = [pl.lit(None, pl.Int32).alias("__partition"), pl.lit(None, pl.Int64).alias("__offset")]
            frames.setdefault("dead", []).append(refusals(operator.name, None, stepped.failed.with_columns(nowhere)))
        return {kind: pl.concat(several) for kind, several in frames.items() if any(one.height for one in several)}

    def committed(self, operator: OperatorRuntime, mark: Instant, now: Instant) -> None:
        """A step is committed: all rows that were due have been stepped."""
        operator.seen = StepProgress(self._store.operators.of(operator.name).next_run - 1, mark, now)

    def watermark(self, operator: OperatorRuntime, added: Sequence[Segment]) -> Instant:
        """The watermark of what an operator gives, after a step that added segments."""
        after = operator.time.watermark
        if after >= END or after <= BEGINNING:
            return after
        hold = operator.operator.hold
        if hold is not None:
            return after - hold
        state = self._store.operators.of(operator.name).changed(added)
        seen = StepProgress(state.next_run, after, operator.seen.now)
        due = [SegmentRows(state, kind, seen=seen).next_due() for kind in operator.kernel.kinds.values()]
        return min([after, *(one for one in due if one is not None)])
