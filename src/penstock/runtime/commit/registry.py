"""The streams, views, flows and pending generations of an engine. They change between two commits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.errors import DefinitionError, in_quotes
from penstock.history.events.event_history import EventHistory
from penstock.kernel.plan import Plan
from penstock.model.changes import Changes, above, below, check_below
from penstock.model.stream import Flow, Stream
from penstock.model.table import tables as tables_of
from penstock.model.time import BEGINNING, Instant
from penstock.model.view import View
from penstock.model.watermarks import Tracker, ViewTime
from penstock.runtime.commit.operators import LIVE, OperatorRuntime, OperatorSteps, operator_runtime
from penstock.runtime.commit.shards import Shards
from penstock.runtime.commit.view_runtime import GenerationInput, PendingGeneration, ViewRuntime
from penstock.runtime.derived.base import Inputs, check_inputs
from penstock.runtime.epoch.analyst import Analyst
from penstock.runtime.epoch.catalyst import lower
from penstock.runtime.epoch.feeds import Lowered
from penstock.runtime.spark.session import active_session
from penstock.runtime.tables.tables import Tables
from penstock.store import Store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Registry:
    """All definitions of an engine, with their time. `version` counts the changes to them.

    The caller sees to it that nothing changes during an epoch or a tick.
    """

    def __init__(
        self,
        streams: Mapping[str, Stream],
        store: Store,
        now: Instant,
        caught_up: Callable[[str], bool],
        *,
        flows: Mapping[str, Flow] | None = None,
        session: Callable[[], SparkSession] | None = None,
        history: EventHistory | None = None,
        tables: Tables | None = None,
        shards: Shards | None = None,
    ) -> None:
        self.shards = shards or Shards(store, session)
        self.tables = tables or Tables(session or active_session, None, lambda: now, None)
        self.streams, self.store, self.flows = dict(streams), store, dict(flows or {})
        self._analyst = Analyst(session or active_session)
        self.caught_up, self.history = caught_up, history
        saved = store.trackers()
        self.trackers = {
            name: Tracker.restore(stream.watermark, saved[name]) if name in saved else Tracker(stream.watermark)
            for name, stream in self.streams.items()
            if stream.watermark is not None
        }
        self._now = now
        self.resume(now)
        check_inputs(self.streams)
        self.inputs = Inputs()  # the time of what derived streams read
        for stream in self.streams.values():
            self.inputs.add(stream, self.trackers, store)
        if history is not None:
            history.keep(self.streams)
        self.views: dict[str, ViewRuntime] = {}
        self.lowered = Lowered({}, {}, {})
        self._read: dict[str, list[Flow]] = {}  # what is read of each stream, since the views were compiled
        self.generations: dict[str, PendingGeneration] = {}  # by their hidden name
        self.beginning: set[str] = set()  # views and operators over views that have not taken a step yet
        self.version = 0
        self.operators: dict[str, OperatorRuntime] = {}  # by the stream that each gives
        self.operator_steps = OperatorSteps(store, self.shards)
        for stream in self.streams.values():
            self._add_operator(stream)
        if self.operators:
            self.lower_again()

    # operators

    def operators_of(self, stream: str) -> list[str]:
        """The operators to which events of a stream come as they are, and rows of no operator or view."""
        names = {name: {source.name for source in one.sources} for name, one in self.operators.items()}
        made = self.operators.keys() | self.views.keys()
        return [name for name, sources in names.items() if stream in sources and not sources & made]

    def _add_operator(self, stream: Stream) -> None:
        """Takes up the operator that gives a stream, if one does."""
        operator = operator_runtime(stream, self.store, self._tracker_of)
        if operator is not None:
            self.operators[stream.name] = operator
            self.beginning |= self.waiting

    @property
    def waiting(self) -> set[str]:
        """New operators that have not taken a step with the epochs yet."""
        return {name for name in self.operators if self.store.operators.of(name).replayed != LIVE}

    def _tracker_of(self, source: Stream) -> Tracker | None:
        self._track_changes(source)
        return self.trackers.get(source.name)

    @property
    def _operator_views(self) -> dict[str, View]:
        """What comes to operators, by the names of their inputs."""
        return {name: view for one in self.operators.values() for name, view in one.views.items()}

    # views

    def keep(self, views: Mapping[str, View], statements: Mapping[str, str] | None = None) -> None:
        """Adds views, with the state that the store has of them. `statements` that made them are stored too."""
        for name in views:
            self._check_settled(name)
        check_below(views, self.definitions)
        lowered = self._lower({**self._fed_definitions, **views})
        plans = {name: Plan(lowered.views[name], view) for name, view in views.items()}
        self.store.prepare(plans, statements)
        self.shards.place(list(plans), self._now)
        closed, times = self.store.closed(), self.store.view_times()
        plans = {name: replace(plan, closed=closed.get(name, BEGINNING)) for name, plan in plans.items()}
        for name, plan in plans.items():
            self._track_below(plan)
            self.views[name] = ViewRuntime(plan, ViewTime(self._trackers_of(plan), times.get(name, BEGINNING)))
            if name not in times and below(plan.written.input):
                self.beginning.add(name)
        self._relower(lowered)

    def _track_below(self, plan: Plan) -> None:
        """The changes of the views below a view have a tracker of their own, which follows those views."""
        for source in plan.streams:
            self._track_changes(source)

    def _track_changes(self, source: Stream) -> None:
        if isinstance(source, Changes) and source.watermark is not None and source.name not in self.trackers:
            saved = self.store.trackers().get(source.name)
            tracker = Tracker(source.watermark) if saved is None else Tracker.restore(source.watermark, saved)
            self.trackers[source.name] = tracker

    def _trackers_of(self, plan: Plan) -> dict[str, Tracker]:
        return {s.name: self.trackers[s.name] for s in plan.streams if s.name in self.trackers}

    @property
    def definitions(self) -> dict[str, View]:
        """The views as they were written."""
        return {name: view.plan.written for name, view in self.views.items()}

    @property
    def fed(self) -> dict[str, ViewRuntime]:
        """All that takes part in the epochs: the views, and pending generations of other definitions."""
        pending = {name: generation.view for name, generation in self.generations.items() if generation.of is None}
        return {**self.views, **pending}

    @property
    def _fed_definitions(self) -> dict[str, View]:
        return {name: view.plan.written for name, view in self.fed.items()}

    @property
    def times(self) -> list[ViewTime]:
        """The time of each view, of each generation of another definition, and of what derived streams read."""
        operators = (operator.time for operator in self.operators.values())
        return [*(view.time for view in self.fed.values()), *operators, *self.inputs.times.values()]

    def resume(self, now: Instant) -> None:
        """After a start or a leap of the clock nothing is idle."""
        for tracker in self.trackers.values():
            tracker.resume(now)

    def flows_of(self, stream: str) -> list[Flow]:
        """What views and sinks read of a stream."""
        if stream not in self._read:
            flows = self._all_flows(self._fed_definitions)
            self._read[stream] = [flow for flow in flows if stream in {source.name for source in flow.sources}]
        return self._read[stream]

    def _all_flows(self, views: Mapping[str, View]) -> list[Flow]:
        """What views, sinks and operators read."""
        operators = (flow for one in self.operators.values() for flow in one.operator.inputs)
        return [*(view.input for view in views.values()), *self.flows.values(), *operators]

    def drop(self, name: str) -> None:
        """Removes a view with its state."""
        self._check_settled(name)
        self._check_unread(name)
        self.store.drop(name)
        self.rest(name)

    def rest(self, name: str) -> None:
        """Deactivates a view: it gets no more events. Its state stays in the store."""
        self._check_settled(name)
        self._check_unread(name)
        self.views.pop(name, None)
        self.lower_again()

    def _check_unread(self, name: str) -> None:
        """Rejects the removal of a view that others read."""
        readers = above(name, self.definitions)
        if readers:
            raise DefinitionError(
                f"the view '{name}' is read by {in_quotes(readers)}",
                hint="drop those first",
            )

    def _check_settled(self, name: str) -> None:
        """Rejects a change of a view while a generation of it is pending."""
        if any(hidden.partition("~")[0] == name for hidden in self.generations):
            raise DefinitionError(f"a generation of the view '{name}' is in the making", hint="wait until it is done")

    # generations

    def begin_generation(
        self, hidden: str, name: str, view: View, now: Instant, put: Callable[[GenerationInput], None]
    ) -> Plan:
        """From the next commit on `put` receives what a generation of the view is stepped with; its plan."""
        self._check_settled(name)
        self._check_unread(name)
        if below(view.input):
            raise DefinitionError(
                f"'{name}' is a view over views: it has no events in the history to be computed from",
                hint="drop it and create it again: it then begins with what the views below it show",
            )
        old = self.views.get(name)
        if old is not None and old.plan.written == view:
            self.generations[hidden] = PendingGeneration(old, put, name)
            return old.plan
        lowered = self._lower({**self._fed_definitions, hidden: view})
        plan = Plan(lowered.views[hidden], view)
        trackers = self._trackers_of(plan)
        is_known = old is not None and old.time.trackers.keys() == trackers.keys()
        time = ViewTime(trackers, old.time.watermark if old is not None and is_known else BEGINNING)
        time.look(now, {stream: self.caught_up(stream) for stream in trackers})
        self.generations[hidden] = PendingGeneration(ViewRuntime(plan, time), put)
        self._relower(lowered)
        return plan

    def end_generation(self, hidden: str) -> None:
        """Removes a pending generation."""
        generation = self.generations.pop(hidden, None)
        if generation is not None and generation.of is None:
            self.lower_again()

    def take_over(self, hidden: str, name: str) -> None:
        """A generation that the store has swapped in becomes the view."""
        generation = self.generations.pop(hidden)
        if generation.of is None:
            self.views[name] = generation.view
            self.lower_again()
        else:
            self.version += 1  # the store has other rows

    def lowered_alone(self, name: str, view: View, streams: Mapping[str, Stream]) -> Lowered:
        """A view as the kernel takes it, and the feeds that it reads, as if there were no other."""
        self.tables.need(self, [view.input, *(other.input for other in self._fed_definitions.values())])
        return lower(streams, {name: view}, {}, self._analyst, self.tables.snapshots)

    # streams and flows

    def add_stream(self, name: str, stream: Stream, now: Instant) -> None:
        """Adds a stream that is new to the store."""
        self.streams[name] = stream
        try:
            check_inputs(self.streams)
            lowered = self._lower(self._fed_definitions)
        except BaseException:
            del self.streams[name]
            raise
        if self.history is not None:
            self.history.keep({name: stream})
        if stream.watermark is not None:
            self.trackers[name] = Tracker(stream.watermark)
            self.trackers[name].resume(now)
        self.inputs.add(stream, self.trackers, self.store)
        self._relower(lowered)
        try:
            self._add_operator(stream)
            self.lower_again()
        except BaseException:
            self.operators.pop(name, None)
            del self.streams[name]
            raise

    def drop_stream(self, name: str) -> None:
        """Removes a stream that no view and no flow reads, with all that is known of it."""
        self.store.forget_stream(name)
        self.streams.pop(name, None)
        self.trackers.pop(name, None)
        self.operators.pop(name, None)
        self.inputs.drop(name)
        self.lower_again()

    def add_flow(self, name: str, flow: Flow) -> None:
        """Shows the rows of a flow without state to sinks."""
        if self.flows.get(name, flow) != flow:
            raise DefinitionError(f"other rows go by the name '{name}' already", hint="choose another name")
        is_known = name in self.flows
        self.flows[name] = flow
        try:
            self.lower_again()
        except BaseException:
            if not is_known:
                del self.flows[name]
            raise

    def drop_flow(self, name: str) -> None:
        """Stops showing the rows of a flow."""
        del self.flows[name]
        self.lower_again()

    def absorb(self, other: Registry) -> None:
        """Takes over all definitions of another registry, whose engine is not used any more."""
        self.streams |= other.streams
        self.flows |= other.flows
        self.trackers |= other.trackers
        self.views |= other.views
        self.operators |= other.operators
        self.generations |= other.generations
        self.beginning |= other.beginning
        self.inputs.absorb(other.inputs)
        self.tables.release(other)
        self.lower_again()

    # plans

    def turn_tables(self) -> None:
        """From here on views read the versions of tables that were read last."""
        self.tables.turn()
        snapshots = self.tables.snapshots
        if any(snapshots.get(name) != snapshot for name, snapshot in self.lowered.snapshots.items()):
            self.lower_again()

    def lower_again(self) -> None:
        """Compiles all views again: tables have other versions, or definitions were added or removed."""
        self._relower(self._lower(self._fed_definitions))

    def _lower(self, views: Mapping[str, View]) -> Lowered:
        flows = self._all_flows(views)
        beside = [table for one in self.operators.values() for table in one.operator.tables.values()]
        self.tables.need(self, flows, beside)
        names = {name for flow in flows for name in tables_of(flow)} | {table.name for table in beside}
        snapshots = {name: self.tables.snapshots[name] for name in names}
        lowered = lower(self.streams, {**views, **self._operator_views}, self.flows, self._analyst, snapshots)
        return replace(lowered, snapshots=snapshots)

    def _relower(self, lowered: Lowered) -> None:
        """Views read their feeds as these are now: another view may have brought or taken along columns."""
        self.lowered = lowered
        self._read.clear()
        for name, view in self.fed.items():
            if lowered.views[name] is not view.plan.view:
                view.plan = Plan(lowered.views[name], view.plan.written, view.plan.closed)
        for operator in self.operators.values():
            operator.plans = [Plan(lowered.views[name]) for name in operator.views]
            operator.take_tables(lowered.snapshots)
        self.version += 1
