"""Steps the views: time moves, deltas are merged into the state, windows fire.

Views that are alike take their steps together; a view over views takes its step after those that it reads.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

import polars as pl

from penstock.kernel.cascade import change_rows, standing
from penstock.kernel.fire import Time
from penstock.kernel.memory import Open
from penstock.kernel.operators.base import OperatorTime
from penstock.kernel.operators.rows import nothing_in, numbered
from penstock.kernel.reduce import combine
from penstock.kernel.stack import Members, Stack, stacks
from penstock.kernel.step import Change, State
from penstock.model.changes import Changes, below
from penstock.model.time import BEGINNING, END, Instant
from penstock.model.watermarks import Observation
from penstock.runtime.commit.cascade import Cascade, levels
from penstock.runtime.commit.operators import LIVE, OperatorRuntime
from penstock.runtime.commit.registry import Registry
from penstock.runtime.commit.view_runtime import GenerationInput, PendingGeneration
from penstock.runtime.commit.watermark_mover import WatermarkMover
from penstock.runtime.commit.work import CommitWork
from penstock.state.step import SegmentChange
from penstock.store import Commit

#: Finished windows are removed each time that such a part of the retention has passed.
EXPIRE_STEPS: Final = 20
#: After how many commits known ids, and open windows that are not cached, are counted again.
COUNT_EVERY: Final = 50

_log = logging.getLogger("penstock.runtime")


#: Takes the rows that an operator gives to those that read them; what they show of event time.
ReduceMade: TypeAlias = Callable[[str, Iterable[pl.DataFrame], CommitWork, Mapping[str, Instant]], Observation]


@dataclass(frozen=True)
class StepResult:
    """The result of one step of all views: the parts of a commit that do not depend on its cause."""

    changes: Mapping[str, Change]
    stacked: tuple[tuple[Stack, Change], ...]
    segments: Mapping[str, SegmentChange]
    refused: Mapping[str, pl.DataFrame]
    view_times: Mapping[str, Instant]
    expire: Mapping[str, Instant]
    generations: tuple[tuple[PendingGeneration, GenerationInput], ...]

    @property
    def is_empty(self) -> bool:
        """Whether no stored row changes."""
        in_tables = (*self.changes.values(), *(change for _, change in self.stacked))
        return not any(change.taken.height for change in in_tables) and not any(
            change.added for change in self.segments.values()
        )

    @property
    def late(self) -> dict[str, pl.DataFrame]:
        """By view the places of rows that only the merge could detect as late."""
        late = {name: change.late for name, change in self.changes.items()}
        return late | {name: change.late for name, change in self.segments.items()}


class Stepper:
    """Steps the views of a registry, and writes the commits.

    Up to `open_rows` open windows of a view are cached here, so that a step need not read them from the store. Views
    that step together may have that number each, and `stacked_rows` in all: to ask the store for each of a thousand
    views takes longer than the step.
    """

    def __init__(self, registry: Registry, open_rows: int = 250_000, stacked_rows: int = 1_000_000) -> None:
        self._registry, self._open_rows, self._stacked_rows = registry, open_rows, stacked_rows
        self._watermarks = WatermarkMover(registry)
        self._version = -1  # of the registry, when the caches below were made
        self._nodes: list[Stack | OperatorRuntime] | None = None
        self._read: set[str] = set()  # views whose changes others read
        self._open: dict[Stack, Open | None] = {}  # None where there are too many
        self._expired: dict[str, Instant] = {}  # up to where the finished windows of a view are gone
        self._large: set[str] = set()  # views that move into segments before the next step
        last = registry.store.last()
        self._number = 0 if last is None else last.number  # no commit of these views has a higher one

    @property
    def next_number(self) -> int:
        """A number for the next commit of these views. Other groups may commit meanwhile: the store's may be higher."""
        return self._number + 1

    def step(
        self,
        observed: Mapping[str, Observation],
        work: CommitWork,
        fixed: Mapping[str, Instant],
        reduce_made: ReduceMade,
    ) -> StepResult:
        """Moves time and steps every operator and view, each after those that it reads.

        `fixed` are watermarks that are set from outside. `reduce_made` takes the rows that an operator gives to those
        that read them.
        """
        registry, now = self._registry, work.now
        self._large |= {
            name
            for name, rows in work.deltas.items()
            if name in registry.views and registry.shards.moves(name, rows.height)
        } | {name for name in work.spooled if registry.store.sharded(name) is None}
        self._move_large(work.spooled)
        self._follow_registry()
        before = {name: view.time.watermark for name, view in registry.fed.items()}
        before |= {name: operator.time.watermark for name, operator in registry.operators.items()}
        if not work.replay:
            self._watermarks.move(observed, now, fixed)
        cascade = Cascade(work.number, now)
        stepped: list[tuple[Stack, Change | SegmentChange]] = []
        for node in self._ordered(before):
            if isinstance(node, OperatorRuntime):
                self._step_operator(node, before, cascade, work, reduce_made)
            else:
                stepped.append((node, self._step(node, before, cascade, work)))
        in_tables = [(stack, change) for stack, change in stepped if isinstance(change, Change)]
        return StepResult(
            changes={stack.names[0]: change for stack, change in in_tables if len(stack.names) == 1},
            stacked=tuple((stack, change) for stack, change in in_tables if len(stack.names) > 1),
            segments={stack.names[0]: change for stack, change in stepped if isinstance(change, SegmentChange)},
            refused={kind: pl.concat(frames) for kind, frames in cascade.refused.items()},
            view_times={name: view.time.watermark for name, view in registry.views.items()},
            expire=self._expiring(),
            generations=self._generations(work, before),
        )

    def _generations(
        self, work: CommitWork, before: Mapping[str, Instant]
    ) -> tuple[tuple[PendingGeneration, GenerationInput], ...]:
        """The inputs of pending generations."""
        inputs = []
        for hidden, generation in self._registry.generations.items():
            fed = generation.of or hidden
            if generation.of is None:
                self._watermarks.look(generation.view.time, generation.view.plan.streams, work.now)
            taken = GenerationInput(work.deltas.get(fed), before[fed], generation.view.time.watermark, work.now)
            inputs.append((generation, taken))
        return tuple(inputs)

    def _step_operator(
        self,
        operator: OperatorRuntime,
        before: Mapping[str, Instant],
        cascade: Cascade,
        work: CommitWork,
        reduce_made: ReduceMade,
    ) -> None:
        """One step of an operator; what it gives goes to those that read it."""
        registry, now = self._registry, work.now
        sources = operator.sources
        past = work.replay.get(operator.name)
        if past is not None:
            self._watermarks.follow_past(operator, past.marks)
        elif work.replay and registry.store.operators.of(operator.name).replayed != LIVE:
            return  # it has its own past, and reads that later
        elif not work.replay:
            self._watermarks.look(operator.time, sources, now)
        time = OperatorTime(before[operator.name], operator.time.watermark, now)
        below_it = {source.name for source in sources if isinstance(source, Changes)}
        begins = operator.name in registry.beginning and below_it
        first = self._standing(below_it, cascade) if begins else {}
        frames = []
        for into in operator.inputs:
            rows = [frame for frame in (*work.entering.get(into.name, ()), *cascade.rows(into, first)) if frame.height]
            frames.append(numbered(into.plan, pl.concat(rows)) if rows else nothing_in(into.plan, into.columns))
        outcome = registry.operator_steps.step(operator, frames, time, work.spool.write_id)
        if outcome.timing is not None:
            work.timings[operator.name] = outcome.timing
        work.refused.append(outcome.refused)
        if "dead" in outcome.refused:
            work.failed[operator.name] = outcome.refused["dead"]
        work.versions |= registry.lowered.versions((), operator.operator.tables)
        work.count(outcome.counters)
        change = outcome.change if past is None else replace(outcome.change, replayed=past.number)
        is_new = registry.store.operators.of(operator.name).replayed != LIVE
        if change.added or change.rows or time.after != time.before or is_new:
            work.operators[operator.name] = change
        observation = Observation()
        if outcome.rows.count:
            observation = reduce_made(operator.name, outcome.rows.chunks(), work, before)
        self._watermarks.move_output(operator, observation, outcome.change.added, now)

    def commit(self, commit: Commit, result: StepResult) -> None:
        """Writes a commit; what is cached of open windows follows it."""
        try:
            number = self._registry.store.commit(commit)
        except BaseException:
            self._open.clear()
            raise
        self._number = number
        self._registry.beginning = self._registry.waiting  # an operator does not step while others read their past
        self._expired |= commit.expire
        for generation, taken in result.generations:
            generation.put(taken)
        changes: dict[tuple[str, ...], Change] = {(name,): change for name, change in commit.changes.items()}
        changes |= {stack.names: change for stack, change in commit.stacked}
        for name, change in commit.operators.items():
            self._registry.operator_steps.committed(self._registry.operators[name], change.mark, commit.now)
        for name in commit.segments:
            sharded = self._registry.store.sharded(name)
            if sharded is not None:
                self._registry.shards.committed(name, sharded.next_run - 1, commit.now)
        for stack, rows in self._open.items():
            if rows is not None:
                rows.apply(changes[stack.names])
                if rows.live.height > self._most_open(stack):
                    self._open[stack] = None
                    self._note_large(stack, rows.live)
        try:
            self._count_large(number, commit.now)
        except Exception as error:  # the commit stands: a failure reported now would undo its time
            message = "large state was not counted or moved, which is tried again after %d commits: %s"
            _log.warning(message, COUNT_EVERY, error)

    def _note_large(self, stack: Stack, rows: pl.DataFrame) -> None:
        """Views with many open windows move into segments before the next step."""
        parts = stack.parted(rows)
        self._large |= {name for name, own in parts.items() if self._registry.shards.moves(name, own.height)}

    def _count_large(self, number: int, now: Instant) -> None:
        """The same for known ids, which move at once, and for views of which nothing is cached."""
        if number % COUNT_EVERY:
            return
        for stream in self._registry.streams.values():
            if stream.id is not None and self._registry.shards.move_ids(stream.name, now):
                _log.info("the known ids of the stream '%s' are in segments from here on", stream.name)
        for stack, rows in self._open.items():
            for name in stack.names if rows is None else ():
                if self._registry.store.sharded(name) is None:
                    count = self._registry.store.count_open(name, self._registry.shards.large + 1)
                    self._large |= {name} if self._registry.shards.moves(name, count) else set()

    def _move_large(self, waiting: Collection[str]) -> None:
        """Moves large views into segments. One that cannot move now is tried again before each step.

        Views in `waiting` have deltas in files, which only segments take. If they cannot move, the step fails.
        """
        registry = self._registry
        pending = {generation.of for generation in registry.generations.values()}
        self._large = {name for name in self._large if name in registry.views and registry.store.sharded(name) is None}
        for name in sorted(self._large - pending):
            shards = registry.shards.placement(name).count
            try:
                registry.store.shard(name, shards)
            except Exception as error:
                if name in waiting:
                    raise
                _log.warning("the state of the view '%s' stays in the store, its move failed: %s", name, error)
                continue
            self._large.discard(name)
            registry.version += 1
            message = "the state of the view '%s' has grown: it is in segments from here on, in %d shards"
            _log.info(message, name, shards)

    def absorb(self, other: Stepper) -> None:
        """Its commits follow those of another stepper too."""
        self._number = max(self._number, other._number)

    def _follow_registry(self) -> None:
        """After a change of the views: decides again which of them step together."""
        if self._version != self._registry.version:
            self._version = self._registry.version
            self._nodes = None
            self._open.clear()
            self._expired.clear()

    def _ordered(self, before: Mapping[str, Instant]) -> list[Stack | OperatorRuntime]:
        """Operators, and views that step together, each after those that it reads."""
        if self._nodes is None:
            registry = self._registry
            written = registry.definitions
            read = {name: [view.input] for name, view in written.items()}
            read |= {name: list(one.operator.inputs) for name, one in registry.operators.items()}
            level = levels(read)
            plans = {name: view.plan for name, view in registry.views.items()}
            sharded = [name for name in plans if registry.store.sharded(name) is not None]
            alike = stacks({name: plan for name, plan in plans.items() if name not in sharded}, before)
            alike += [Stack((name,), (plans[name],)) for name in sharded]
            nodes: list[tuple[int, Stack | OperatorRuntime]] = [(level[stack.names[0]], stack) for stack in alike]
            nodes += [(level[name], operator) for name, operator in registry.operators.items()]
            self._nodes = [node for _, node in sorted(nodes, key=lambda node: node[0])]
            self._read = {name for flows in read.values() for flow in flows for name in below(flow)}
        return self._nodes

    def _step(
        self, stack: Stack, before: Mapping[str, Instant], cascade: Cascade, work: CommitWork
    ) -> Change | SegmentChange:
        """One step of views that take it together; those above them see what they show."""
        name, views = stack.names[0], self._registry.views
        view = views[name]
        own = {name: work.deltas[name] for name in stack.names if name in work.deltas}
        lower = below(view.plan.written.input)
        first: dict[str, pl.DataFrame] = {}
        for one in stack.names:
            self._watermarks.look(views[one].time, views[one].plan.streams, cascade.now)
        if lower:
            first = self._standing(lower, cascade) if name in self._registry.beginning else {}
            taken = [*cascade.deltas(name, view.plan, before[name], first), *own.values()]
            own = {name: combine(view.plan, taken)} if taken else {}
        time = Time(before[name], view.time.watermark, cascade.now, view.time.reached)
        sharded = self._registry.store.sharded(name)
        change: Change | SegmentChange
        if sharded is None:
            change = stack.step(own, self._state(stack), time)
        else:
            spooled = work.spooled.get(name, ())
            panes_here = name in self._read or bool(first)
            change = self._registry.shards.step(
                sharded, view.plan, time, own.get(name), spooled, work.spool.write_id, panes_here=panes_here
            )
        if lower:
            cascade.late_in_merge(name, view.plan, change.late)
        read = [one for one in stack.names if one in self._read]
        panes = stack.parted(change.panes) if read else {}
        for one in read:
            if one in panes:
                cascade.show(one, views[one].plan, panes[one])
        if any(rows.height for rows in first.values()) and change.panes.height:
            return replace(change, panes=change.panes.filter(~pl.col("__final")))  # finished windows have fired before
        return change

    def _standing(self, views: Iterable[str], cascade: Cascade) -> dict[str, pl.DataFrame]:
        """The current panes of views: a new view over them starts with these."""
        plans = {name: self._registry.views[name].plan for name in views}
        return {
            name: change_rows(plan, standing(plan, self._registry.store.state(name)), cascade.number - 1)
            for name, plan in plans.items()
        }

    def _state(self, stack: Stack) -> State:
        """The open windows of views that step together: cached here if they are few, else in the store."""
        states = {name: self._registry.store.state(name) for name in stack.names}
        members = Members(stack, states) if len(states) > 1 else states[stack.names[0]]
        if stack not in self._open:
            rows = members.open_rows(self._most_open(stack)) if stack.remembers else None
            self._open[stack] = None if rows is None else Open(stack.plan, rows)
        return self._open[stack] or members

    def _most_open(self, stack: Stack) -> int:
        """How many open windows of a stack are cached."""
        return min(self._open_rows * len(stack.names), max(self._open_rows, self._stacked_rows))

    def _expiring(self) -> dict[str, Instant]:
        """Before which end finished windows of views are removed: many at once every few commits, not a few at each."""
        ends: dict[str, Instant] = {}
        for name, view in self._registry.views.items():
            retention = None if view.plan.forgets else view.plan.view.retention  # forgotten keys go at each commit
            if retention is not None and BEGINNING < view.time.watermark < END:  # the end of input makes nothing old
                before = view.time.watermark - retention
                if before > self._expired.get(name, BEGINNING) + retention // EXPIRE_STEPS:
                    ends[name] = before
        return ends
