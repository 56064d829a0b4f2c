"""A step of the views: time moves, deltas are merged, windows fire, and all of it is one commit of the store.

Views that are alike take their steps together; a view over views takes its step after those that it reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import polars as pl

from penstock.engine.cascade import Cascade, levels
from penstock.engine.holding import Aside, Holding, Kept
from penstock.kernel.cascade import change_rows, standing
from penstock.kernel.fire import Time
from penstock.kernel.memory import Open
from penstock.kernel.reduce import combine
from penstock.kernel.stack import Members, Stack, stacks
from penstock.kernel.step import Change, State
from penstock.logs.base import FILE
from penstock.model.changes import Changes, below, carried
from penstock.model.time import BEGINNING, END, Instant
from penstock.model.watermarks import Observation
from penstock.store import Commit
from penstock.store.base import DEAD_FILES, LATE_EVENTS

#: Up to so many open windows of a stack are kept in this process too, so that a commit need not ask the store for them.
OPEN_ROWS = 250_000
#: Finished windows are removed each time that such a part of the retention has passed.
EXPIRE_STEPS: Final = 20


class Steps(Holding):
    """Takes steps with what the engine holds."""

    def _stepped(
        self,
        observed: Mapping[str, Observation],
        deltas: Mapping[str, pl.DataFrame],
        now: Instant,
        fixed: Mapping[str, Instant],
    ) -> Commit:
        """Moves time and steps every view; what comes out is one commit."""
        before = {name: kept.time.watermark for name, kept in self._fed().items()}
        caught_up = {name: self._caught_up(name) for name in self.streams}
        for name, tracker in self.trackers.items():
            if name in caught_up:
                tracker.advance(
                    observed.get(name, Observation()), now=now, caught_up=caught_up[name], fixed=fixed.get(name)
                )
        for kept in self._fed().values():
            if kept.time.trackers.keys() <= caught_up.keys():  # others follow the views below them, after their steps
                kept.time.look(now, caught_up)
        self.inputs.look(now, caught_up)
        self._aside = [
            (beside, Aside(deltas.get(fed), before[fed], beside.kept.time.watermark, now))
            for hidden, beside in self.beside.items()
            for fed in [beside.of or hidden]
        ]
        cascade = Cascade(self._commits + 1, now)
        stepped = [(stack, self._step(stack, deltas, before, cascade)) for stack in self._ordered(before)]
        refused = {kind: pl.concat(frames) for kind, frames in cascade.refused.items()}
        return Commit(
            kind="tick",
            now=now,
            changes={stack.names[0]: change for stack, change in stepped if len(stack.names) == 1},
            stacked=[(stack, change) for stack, change in stepped if len(stack.names) > 1],
            view_times={name: kept.time.watermark for name, kept in self.views.items()},
            trackers={name: tracker.snapshot() for name, tracker in self.trackers.items()},
            refused=refused,
            counters=counted(refused),
        )

    def _ordered(self, before: Mapping[str, Instant]) -> list[Stack]:
        """Who takes steps together, each after those that it reads."""
        if self._stacks is None:
            found = stacks({name: kept.plan for name, kept in self.views.items()}, before)
            written = {name: kept.plan.written for name, kept in self.views.items()}
            level = levels(written)
            self._stacks = sorted(found, key=lambda stack: level[stack.names[0]])
            self._read = {name for view in written.values() for name in below(view.input)}
        return self._stacks

    def _step(
        self, stack: Stack, deltas: Mapping[str, pl.DataFrame], before: Mapping[str, Instant], cascade: Cascade
    ) -> Change:
        """One step of views that take it together; those above them see what they show."""
        name = stack.names[0]
        kept = self.views[name]
        found = {name: deltas[name] for name in stack.names if name in deltas}
        views = below(kept.plan.written.input)
        first: dict[str, pl.DataFrame] = {}
        if views:
            self._follow_below(kept, cascade.now)
            first = self._standing(views, cascade) if name in self._beginning else {}
            taken = [*cascade.deltas(name, kept.plan, before[name], first), *found.values()]
            found = {name: combine(kept.plan, taken)} if taken else {}
        time = Time(before[name], kept.time.watermark, cascade.now, kept.time.reached)
        change = stack.step(found, self._state(stack), time)
        if views:
            cascade.late_in_merge(name, kept.plan, change.late)
        read = [one for one in stack.names if one in self._read]
        panes = stack.parted(change.panes) if read else {}
        for one in read:
            if one in panes:
                cascade.show(one, self.views[one].plan, panes[one])
        if any(rows.height for rows in first.values()) and change.panes.height:
            change.panes = change.panes.filter(~pl.col("__final"))  # what is over does not fire any more
        return change

    def _follow_below(self, kept: Kept, now: Instant) -> None:
        """The time of a view over views follows theirs."""
        for source in kept.plan.written.input.sources:
            if isinstance(source, Changes) and source.name in self.trackers:
                mark = carried(source.of, self.views[source.name].time.watermark)
                self.trackers[source.name].advance(Observation(), now=now, fixed=mark)
        kept.time.look(now, {source: source in self.views or self._caught_up(source) for source in kept.time.trackers})

    def _standing(self, views: Iterable[str], cascade: Cascade) -> dict[str, pl.DataFrame]:
        """What views show so far: a view that begins above them begins with that."""
        plans = {name: self.views[name].plan for name in views}
        return {
            name: change_rows(plan, standing(plan, self.store.state(name)), cascade.number - 1)
            for name, plan in plans.items()
        }

    # state

    def _state(self, stack: Stack) -> State:
        """The open windows of views that take their steps together: here if they are few, else in the store."""
        states = {name: self.store.state(name) for name in stack.names}
        members = Members(stack, states) if len(states) > 1 else states[stack.names[0]]
        if stack not in self._open:
            found = members.open_rows(OPEN_ROWS) if stack.remembers else None
            self._open[stack] = None if found is None else Open(stack.plan, found)
        return self._open[stack] or members

    def _commit(self, commit: Commit) -> None:
        """Writes a commit; what is kept here of open windows follows it."""
        commit.expire = self._expiring()
        try:
            self.store.commit(commit)
        except BaseException:
            self._open.clear()
            raise
        self._commits += 1
        self._beginning.clear()
        self._expired |= commit.expire
        for beside, aside in self._aside:
            beside.put(aside)
        changes: dict[tuple[str, ...], Change] = {(name,): change for name, change in commit.changes.items()}
        changes |= {stack.names: change for stack, change in commit.stacked}
        for stack, rows in self._open.items():
            if rows is not None:
                rows.apply(changes[stack.names])
                if rows.live.height > OPEN_ROWS:
                    self._open[stack] = None

    def _expiring(self) -> dict[str, Instant]:
        """Where finished windows have had their time: before which end. Not a few at each commit, but now and then."""
        found: dict[str, Instant] = {}
        for name, kept in self.views.items():
            retention = kept.plan.view.retention
            if retention is not None and BEGINNING < kept.time.watermark < END:  # the end of input makes nothing old
                before = kept.time.watermark - retention
                if before > self._expired.get(name, BEGINNING) + retention // EXPIRE_STEPS:
                    found[name] = before
        return found


def counted(refused: Mapping[str, pl.DataFrame]) -> dict[str, int]:
    """How many rows of which stream were refused, for the counters.

    An event is late for a view: `late` counts pairs of an event and a view, `late_events` counts events.
    """
    found: dict[str, int] = {}
    for kind, frame in refused.items():
        for stream, count in frame.group_by("stream").len().iter_rows():
            found[f"{stream}.{kind}"] = count
        for stream, count in frame.filter(pl.col("extent") == FILE).group_by("stream").len().iter_rows():
            found[f"{stream}.{DEAD_FILES}"] = count
    if "late" in refused:
        events = refused["late"].unique(["stream", "partition", "offset"])
        for stream, count in events.group_by("stream").len().iter_rows():
            found[f"{stream}.{LATE_EVENTS}"] = count
    return found
