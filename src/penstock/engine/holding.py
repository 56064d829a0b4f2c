"""What the engine holds: streams, views and generations in the making, which come and go between two commits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import polars as pl

from penstock.engine.analyst import Analyst
from penstock.engine.catalyst import lower
from penstock.engine.derived import Inputs, check_inputs, check_settled
from penstock.engine.feeds import Lowered
from penstock.engine.session import active_session
from penstock.engine.tables import Tables
from penstock.errors import DefinitionError
from penstock.kernel.memory import Open
from penstock.kernel.plan import Plan
from penstock.kernel.share import Sharing
from penstock.kernel.stack import Stack
from penstock.lake.master import Master
from penstock.model.changes import Changes, above, below, check_below
from penstock.model.stream import Flow, Stream
from penstock.model.time import BEGINNING, Instant
from penstock.model.view import View
from penstock.model.watermarks import Tracker, ViewTime
from penstock.store import Store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass
class Kept:
    """A view as the engine keeps it."""

    plan: Plan
    time: ViewTime


@dataclass(frozen=True)
class Aside:
    """What one commit steps a view with: its deltas, if it has some, and its time."""

    deltas: pl.DataFrame | None
    before: Instant
    after: Instant
    now: Instant


@dataclass
class Beside:
    """A generation in the making: what each commit would step it with is put aside.

    `of` names the view whose deltas are its own too; another definition takes part in the epochs by itself.
    """

    kept: Kept
    put: Callable[[Aside], None]
    of: str | None = None


class Holding:
    """Streams and views on a store. The caller sees to it that epochs and ticks come one after the other."""

    def __init__(
        self,
        streams: Mapping[str, Stream],
        store: Store,
        now: Instant,
        caught_up: Callable[[str], bool],
        *,
        flows: Mapping[str, Flow] | None = None,
        session: Callable[[], SparkSession] | None = None,
        master: Master | None = None,
        tables: Tables | None = None,
    ) -> None:
        self.tables = tables or Tables(session or active_session, None, lambda: now, None)
        self.streams, self.store, self.flows = dict(streams), store, dict(flows or {})
        self._analyst = Analyst(session or active_session)
        self._caught_up, self.master = caught_up, master
        saved = store.trackers()
        self.trackers = {
            name: Tracker.restore(stream.watermark, saved[name]) if name in saved else Tracker(stream.watermark)
            for name, stream in self.streams.items()
            if stream.watermark is not None
        }
        for tracker in self.trackers.values():
            tracker.resume(now)
        check_inputs(self.streams)
        self.inputs = Inputs()  # the time of what streams read that are made from others
        for stream in self.streams.values():
            check_settled(stream, store)
            self.inputs.add(stream, self.trackers, store)
        if master is not None:
            master.keep(self.streams)
            master.read_through = self.inputs.read_through
        self.views: dict[str, Kept] = {}
        self.lowered = Lowered({}, {}, {})
        self._sharing: dict[str, Sharing] = {}  # by feed
        self._stacks: list[Stack] | None = None
        self._read: set[str] = set()  # views whose changes others read, as of the stacks
        self._open: dict[Stack, Open | None] = {}  # None where there are too many
        self.beside: dict[str, Beside] = {}  # generations in the making, by their hidden name
        self._aside: list[tuple[Beside, Aside]] = []  # of the commit that is being made
        self._beginning: set[str] = set()  # views over views that have not taken a step yet
        last = store.last()
        self._commits = 0 if last is None else last.number
        self._expired: dict[str, Instant] = {}  # up to where the finished windows of a view are gone

    # views come and go, between two commits

    def keep(self, views: Mapping[str, View], statements: Mapping[str, str] | None = None) -> None:
        """Takes up views, with the state that the store has of them. Statements that made them are remembered."""
        for name in views:
            self._check_settled(name)
        check_below(views, {name: kept.plan.written for name, kept in self.views.items()})
        lowered = self._lower({**{name: kept.plan.written for name, kept in self._fed().items()}, **views})
        plans = {name: Plan(lowered.views[name], view) for name, view in views.items()}
        self.store.prepare(plans, statements)
        closed, times = self.store.closed(), self.store.view_times()
        plans = {name: replace(plan, closed=closed.get(name, BEGINNING)) for name, plan in plans.items()}
        for name, plan in plans.items():
            self._track_below(plan)
            self.views[name] = Kept(plan, ViewTime(self._trackers_of(plan), times.get(name, BEGINNING)))
            if name not in times and below(plan.written.input):
                self._beginning.add(name)
        self._relower(lowered)

    def _track_below(self, plan: Plan) -> None:
        """The changes of the views below it have a time of their own, which follows theirs."""
        for source in plan.written.input.sources:
            if isinstance(source, Changes) and source.watermark is not None and source.name not in self.trackers:
                saved = self.store.trackers().get(source.name)
                made = Tracker(source.watermark) if saved is None else Tracker.restore(source.watermark, saved)
                self.trackers[source.name] = made

    def _trackers_of(self, plan: Plan) -> dict[str, Tracker]:
        return {s.name: self.trackers[s.name] for s in plan.written.input.sources if s.name in self.trackers}

    def _fed(self) -> dict[str, Kept]:
        """All that takes part in the epochs: the views, and generations of other definitions."""
        return {**self.views, **{name: beside.kept for name, beside in self.beside.items() if beside.of is None}}

    @property
    def times(self) -> list[ViewTime]:
        """The time of each view, of each generation of another definition, and of what derived streams read."""
        return [*(kept.time for kept in self._fed().values()), *self.inputs.times.values()]

    def drop(self, name: str) -> None:
        """Gives up a view with its state."""
        self._check_settled(name)
        self._check_unread(name)
        self.store.drop(name)
        self.rest(name)

    def rest(self, name: str) -> None:
        """Lets a view be: it takes no events, and its state stays in the store."""
        self._check_settled(name)
        self._check_unread(name)
        self.views.pop(name, None)
        self._expired.pop(name, None)
        self._relower(self._lower_again())

    # generations come and go, between two commits

    def begin_beside(self, hidden: str, name: str, view: View, now: Instant, put: Callable[[Aside], None]) -> Plan:
        """From the next commit on puts aside what a generation of the view is stepped with; its plan."""
        self._check_settled(name)
        self._check_unread(name)
        if below(view.input):
            raise DefinitionError(
                f"«{name}» is a view over views: it has no events in the master to be computed from",
                hint="drop it and create it again: it then begins with what the views below it show",
            )
        old = self.views.get(name)
        if old is not None and old.plan.written == view:
            self.beside[hidden] = Beside(old, put, name)
            return old.plan
        lowered = self._lower({**{other: kept.plan.written for other, kept in self._fed().items()}, hidden: view})
        plan = Plan(lowered.views[hidden], view)
        mine = self._trackers_of(plan)
        known = old is not None and old.time.trackers.keys() == mine.keys()
        time = ViewTime(mine, old.time.watermark if old is not None and known else BEGINNING)
        time.look(now, {stream: self._caught_up(stream) for stream in mine})
        self.beside[hidden] = Beside(Kept(plan, time), put)
        self._relower(lowered)
        return plan

    def _check_unread(self, name: str) -> None:
        """Refuses to take away a view that others read."""
        readers = above(name, {other: kept.plan.written for other, kept in self.views.items()})
        if readers:
            raise DefinitionError(
                f"the view «{name}» is read by {', '.join(f'«{reader}»' for reader in readers)}",
                hint="drop those first",
            )

    def _check_settled(self, name: str) -> None:
        """Refuses to change a view of which a generation is in the making."""
        if any(hidden.partition("~")[0] == name for hidden in self.beside):
            raise DefinitionError(f"a generation of the view «{name}» is in the making", hint="wait until it is done")

    def lowered_alone(self, name: str, view: View) -> Lowered:
        """A view as the kernel takes it, and the feeds that it reads, as though there were no other."""
        self.tables.need([view.input, *(kept.plan.written.input for kept in self._fed().values())])
        return lower(self.streams, {name: view}, {}, self._analyst, self.tables.snapshots)

    def end_beside(self, hidden: str) -> None:
        """Puts nothing aside any more for a generation that is given up."""
        beside = self.beside.pop(hidden, None)
        if beside is not None and beside.of is None:
            self._relower(self._lower_again())

    def take_over(self, hidden: str, name: str) -> None:
        """A generation that the store has swapped in is the view from here on."""
        beside = self.beside.pop(hidden)
        if beside.of is None:
            self.views[name] = beside.kept
            self._expired.pop(name, None)
            self._relower(self._lower_again())
        else:
            self._open.clear()

    # streams and flows come and go, between two commits

    def add_stream(self, name: str, stream: Stream, now: Instant) -> None:
        """Takes up a stream that is new to the store."""
        self.streams[name] = stream
        try:
            check_inputs(self.streams)
            lowered = self._lower_again()
        except BaseException:
            del self.streams[name]
            raise
        if self.master is not None:
            self.master.keep({name: stream})
        if stream.watermark is not None:
            self.trackers[name] = Tracker(stream.watermark)
            self.trackers[name].resume(now)
        self.inputs.add(stream, self.trackers, self.store)
        self._relower(lowered)

    def drop_stream(self, name: str) -> None:
        """Gives up a stream that no view and no flow reads, with all that is known of it."""
        self.store.forget_stream(name)
        self.streams.pop(name, None)
        self.trackers.pop(name, None)
        self.inputs.drop(name)
        self._relower(self._lower_again())

    def add_flow(self, name: str, flow: Flow) -> None:
        """Shows the rows of a flow without state to sinks."""
        if self.flows.get(name, flow) != flow:
            raise DefinitionError(f"other rows go by the name «{name}» already", hint="choose another name")
        known = name in self.flows
        self.flows[name] = flow
        try:
            self._relower(self._lower_again())
        except BaseException:
            if not known:
                del self.flows[name]
            raise

    def drop_flow(self, name: str) -> None:
        """Shows the rows of a flow no longer."""
        del self.flows[name]
        self._relower(self._lower_again())

    def _lower_again(self) -> Lowered:
        return self._lower({name: kept.plan.written for name, kept in self._fed().items()})

    def _lower(self, views: Mapping[str, View]) -> Lowered:
        self.tables.need([*(view.input for view in views.values()), *self.flows.values()])
        return lower(self.streams, views, self.flows, self._analyst, self.tables.snapshots)

    def _relower(self, lowered: Lowered) -> None:
        """Views read their feeds as these are now: another view may have brought or taken along columns."""
        self.lowered = lowered
        for name, kept in self._fed().items():
            if lowered.views[name] is not kept.plan.view:
                kept.plan = Plan(lowered.views[name], kept.plan.written, kept.plan.closed)
        self._rearrange()

    def _rearrange(self) -> None:
        """Other views are there: who shares a pass and who takes steps together is decided anew."""
        self._sharing.clear()
        self._open.clear()
        self._stacks = None
