"""Steps the views: time moves, deltas are merged into the state, windows fire.

Views that are alike take their steps together; a view over views takes its step after those that it reads.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import polars as pl

from penstock.kernel.cascade import change_rows, standing
from penstock.kernel.fire import Time
from penstock.kernel.memory import Open
from penstock.kernel.reduce import combine
from penstock.kernel.stack import Members, Stack, stacks
from penstock.kernel.step import Change, State
from penstock.model.changes import Changes, below, carried
from penstock.model.time import BEGINNING, END, Instant
from penstock.model.watermarks import Observation
from penstock.runtime.commit.cascade import Cascade, levels
from penstock.runtime.commit.registry import Registry
from penstock.runtime.commit.view_runtime import GenerationInput, PendingGeneration, ViewRuntime
from penstock.state.spool import Spool, SpooledDeltas
from penstock.state.step import SegmentChange
from penstock.store import Commit

#: Finished windows are removed each time that such a part of the retention has passed.
EXPIRE_STEPS: Final = 20
#: Open windows that are not cached are counted once in so many commits.
COUNT_EVERY: Final = 50

_log = logging.getLogger("penstock.runtime")


@dataclass(frozen=True)
class Waiting:
    """Deltas in files, by view; and the id under which the step writes."""

    write_id: str
    deltas: Mapping[str, Sequence[SpooledDeltas]]


@dataclass(frozen=True)
class StepResult:
    """What one step of all views gives: the parts of a commit that do not depend on what caused it."""

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
        """By view the places of rows that only the merge could tell to be late."""
        late = {name: change.late for name, change in self.changes.items()}
        return late | {name: change.late for name, change in self.segments.items()}


class Stepper:
    """Steps the views of a registry, and writes the commits.

    Up to `open_rows` open windows of views that step together are cached here, so that a step need not read them from
    the store.
    """

    def __init__(self, registry: Registry, open_rows: int = 250_000) -> None:
        self._registry, self._open_rows = registry, open_rows
        self._version = -1  # of the registry, when the caches below were made
        self._stacks: list[Stack] | None = None
        self._read: set[str] = set()  # views whose changes others read
        self._open: dict[Stack, Open | None] = {}  # None where there are too many
        self._expired: dict[str, Instant] = {}  # up to where the finished windows of a view are gone
        self._large: set[str] = set()  # views that are to move into segments
        last = registry.store.last()
        self._number = 0 if last is None else last.number  # no commit of these views has a higher one

    def step(
        self,
        observed: Mapping[str, Observation],
        deltas: Mapping[str, pl.DataFrame],
        now: Instant,
        fixed: Mapping[str, Instant],
        spool: Spool,
        spooled: Mapping[str, Sequence[SpooledDeltas]] | None = None,
    ) -> StepResult:
        """Moves time and steps every view. `fixed` are watermarks that are set from outside.

        `spooled` are deltas that wait in files, of views whose state is in segments.
        """
        registry = self._registry
        self._large |= {
            name for name, rows in deltas.items() if name in registry.views and registry.shards.moves(name, rows.height)
        } | {name for name in spooled or {} if registry.store.sharded(name) is None}
        self._move_large(now)
        self._follow_registry()
        before = {name: view.time.watermark for name, view in registry.fed.items()}
        self._move_time(observed, now, fixed)
        generations = tuple(
            (generation, GenerationInput(deltas.get(fed), before[fed], generation.view.time.watermark, now))
            for hidden, generation in registry.generations.items()
            for fed in [generation.of or hidden]
        )
        cascade = Cascade(self._number + 1, now)
        waiting = Waiting(spool.write_id, spooled or {})
        stepped = [(stack, self._step(stack, deltas, before, cascade, waiting)) for stack in self._ordered(before)]
        in_tables = [(stack, change) for stack, change in stepped if isinstance(change, Change)]
        return StepResult(
            changes={stack.names[0]: change for stack, change in in_tables if len(stack.names) == 1},
            stacked=tuple((stack, change) for stack, change in in_tables if len(stack.names) > 1),
            segments={stack.names[0]: change for stack, change in stepped if isinstance(change, SegmentChange)},
            refused={kind: pl.concat(frames) for kind, frames in cascade.refused.items()},
            view_times={name: view.time.watermark for name, view in registry.views.items()},
            expire=self._expiring(),
            generations=generations,
        )

    def commit(self, commit: Commit, result: StepResult) -> None:
        """Writes a commit; what is cached of open windows follows it."""
        try:
            number = self._registry.store.commit(commit)
        except BaseException:
            self._open.clear()
            raise
        self._number = number
        self._registry.beginning.clear()
        self._expired |= commit.expire
        for generation, taken in result.generations:
            generation.put(taken)
        changes: dict[tuple[str, ...], Change] = {(name,): change for name, change in commit.changes.items()}
        changes |= {stack.names: change for stack, change in commit.stacked}
        for name in commit.segments:
            sharded = self._registry.store.sharded(name)
            if sharded is not None:
                self._registry.shards.committed(name, sharded.next_run - 1, commit.now)
        for stack, rows in self._open.items():
            if rows is not None:
                rows.apply(changes[stack.names])
                if rows.live.height > self._open_rows:
                    self._open[stack] = None
                    self._note_large(stack, rows.live)
        try:
            self._count_large(number, commit.now)
        except Exception as error:  # the commit stands: whoever hears that it failed would undo its time
            _log.warning("large state could not be moved into segments, it is tried again later: %s", error)

    def _note_large(self, stack: Stack, rows: pl.DataFrame) -> None:
        """Views with many open windows move into segments before the next step."""
        parts = stack.parted(rows)
        self._large |= {name for name, own in parts.items() if self._registry.shards.moves(name, own.height)}

    def _count_large(self, number: int, now: Instant) -> None:
        """The same for views of which nothing is cached; they are counted now and then."""
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

    def _move_large(self, now: Instant) -> None:
        moving, self._large = self._large, set()
        pending = {generation.of for generation in self._registry.generations.values()}
        for name in sorted(moving):
            if name in self._registry.views and name not in pending and self._registry.store.sharded(name) is None:
                shards = self._registry.shards.placement(name).count
                self._registry.store.shard(name, shards)
                self._registry.version += 1
                message = "the state of the view '%s' has grown: it is in segments from here on, in %d shards"
                _log.info(message, name, shards)

    def absorb(self, other: Stepper) -> None:
        """Its commits follow those of another stepper too."""
        self._number = max(self._number, other._number)

    def _follow_registry(self) -> None:
        """Other views are there: which of them step together is decided anew."""
        if self._version != self._registry.version:
            self._version = self._registry.version
            self._stacks = None
            self._open.clear()
            self._expired.clear()

    def _move_time(self, observed: Mapping[str, Observation], now: Instant, fixed: Mapping[str, Instant]) -> None:
        registry = self._registry
        caught_up = {name: registry.caught_up(name) for name in registry.streams}
        for name, tracker in registry.trackers.items():
            if name in caught_up:
                tracker.advance(
                    observed.get(name, Observation()), now=now, caught_up=caught_up[name], fixed=fixed.get(name)
                )
        for view in registry.fed.values():
            if view.time.trackers.keys() <= caught_up.keys():  # others follow the views below them, after their steps
                view.time.look(now, caught_up)
        registry.inputs.look(now, caught_up)

    def _ordered(self, before: Mapping[str, Instant]) -> list[Stack]:
        """Which views step together, each after those that it reads."""
        if self._stacks is None:
            written = self._registry.definitions
            level = levels(written)
            plans = {name: view.plan for name, view in self._registry.views.items()}
            sharded = [name for name in plans if self._registry.store.sharded(name) is not None]
            alike = stacks({name: plan for name, plan in plans.items() if name not in sharded}, before)
            alike += [Stack((name,), (plans[name],)) for name in sharded]
            self._stacks = sorted(alike, key=lambda stack: level[stack.names[0]])
            self._read = {name for view in written.values() for name in below(view.input)}
        return self._stacks

    def _step(
        self,
        stack: Stack,
        deltas: Mapping[str, pl.DataFrame],
        before: Mapping[str, Instant],
        cascade: Cascade,
        waiting: Waiting,
    ) -> Change | SegmentChange:
        """One step of views that take it together; those above them see what they show."""
        name, views = stack.names[0], self._registry.views
        view = views[name]
        own = {name: deltas[name] for name in stack.names if name in deltas}
        lower = below(view.plan.written.input)
        first: dict[str, pl.DataFrame] = {}
        if lower:
            self._follow_below(view, cascade.now)
            first = self._standing(lower, cascade) if name in self._registry.beginning else {}
            taken = [*cascade.deltas(name, view.plan, before[name], first), *own.values()]
            own = {name: combine(view.plan, taken)} if taken else {}
        time = Time(before[name], view.time.watermark, cascade.now, view.time.reached)
        sharded = self._registry.store.sharded(name)
        change: Change | SegmentChange
        if sharded is None:
            change = stack.step(own, self._state(stack), time)
        else:
            spooled = waiting.deltas.get(name, ())
            change = self._registry.shards.step(sharded, view.plan, time, own.get(name), spooled, waiting.write_id)
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

    def _follow_below(self, view: ViewRuntime, now: Instant) -> None:
        """The time of a view over views follows theirs."""
        registry = self._registry
        for source in view.plan.written.input.sources:
            if isinstance(source, Changes) and source.name in registry.trackers:
                mark = carried(source.of, registry.views[source.name].time.watermark)
                registry.trackers[source.name].advance(Observation(), now=now, fixed=mark)
        caught_up = {name: name in registry.views or registry.caught_up(name) for name in view.time.trackers}
        view.time.look(now, caught_up)

    def _standing(self, views: Iterable[str], cascade: Cascade) -> dict[str, pl.DataFrame]:
        """What views show so far: a view that begins above them begins with that."""
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
            rows = members.open_rows(self._open_rows) if stack.remembers else None
            self._open[stack] = None if rows is None else Open(stack.plan, rows)
        return self._open[stack] or members

    def _expiring(self) -> dict[str, Instant]:
        """Before which end a view's finished windows are removed: not a few at each commit, but now and then."""
        ends: dict[str, Instant] = {}
        for name, view in self._registry.views.items():
            retention = None if view.plan.forgets else view.plan.view.retention  # forgotten keys go at each commit
            if retention is not None and BEGINNING < view.time.watermark < END:  # the end of input makes nothing old
                before = view.time.watermark - retention
                if before > self._expired.get(name, BEGINNING) + retention // EXPIRE_STEPS:
                    ends[name] = before
        return ends
