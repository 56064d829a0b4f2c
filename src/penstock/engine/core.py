"""The engine without its queries: what an epoch and a tick do to the views, and how they become one commit.

An epoch: the job reduces the rows in Spark's tasks; here their records come together, ids are told apart, every view
takes its step, and all of it is one commit of the store. A tick is the same without events.
"""

from __future__ import annotations

import json
import time as clock_time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import polars as pl

from penstock.engine.analyst import Analyst
from penstock.engine.cascade import Cascade, levels
from penstock.engine.catalyst import lower
from penstock.engine.derived import Inputs, Step, check_inputs
from penstock.engine.epoch import Epoch, kept_files, refused, shown
from penstock.engine.feeds import Feed, Lowered
from penstock.engine.ids import left_out
from penstock.engine.job import Job, RowsOut
from penstock.engine.records import late_reason, refusals
from penstock.engine.reduction import Reduction
from penstock.engine.session import active_session
from penstock.engine.tables import Tables
from penstock.errors import DefinitionError
from penstock.kernel.cascade import change_rows, standing
from penstock.kernel.fire import Time
from penstock.kernel.memory import Open
from penstock.kernel.plan import Plan
from penstock.kernel.reduce import combine
from penstock.kernel.share import Sharing, share
from penstock.kernel.stack import Members, Stack, stacks
from penstock.kernel.step import Change, State
from penstock.lake.master import Master
from penstock.lake.writer import Keeping
from penstock.model.changes import Changes, above, below, carried, check_below
from penstock.model.stream import Flow, Stream
from penstock.model.time import BEGINNING, Instant
from penstock.model.view import View
from penstock.model.watermarks import Observation, Tracker, ViewTime
from penstock.store import Commit, Store
from penstock.store.file import Mark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


#: Up to so many open windows of a stack are kept in this process too, so that a commit need not ask the store for them.
OPEN_ROWS = 250_000
#: Rows that DataFrame code makes of dead letters fed in again have places of their own: of epochs from here on.
RETRIED = 1 << 24
#: Finished windows are removed each time that such a part of the retention has passed.
EXPIRE_STEPS = 20


@dataclass
class Kept:
    """A view as the engine keeps it."""

    plan: Plan
    time: ViewTime


@dataclass(frozen=True)
class Source:
    """Where an epoch comes from: a query (one checkpoint of Spark's), its number there, and its offsets."""

    query: str
    epoch: int
    offsets: str
    notes: Mapping[str, Any] = field(default_factory=dict)  # what the commit remembers with its timings
    retried: pl.DataFrame | None = field(default=None, compare=False)  # places of dead letters that come again
    step: Step | None = field(default=None, compare=False)  # of a stream that is made from others


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


class Engine:
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

    # epochs

    def epoch(self, name: str, columns: tuple[str, ...], rows: DataFrame, source: Source, now: Instant) -> Commit:
        """One epoch of a stream, committed."""
        started = clock_time.perf_counter()
        self.turn_tables()
        stream, tracker = self.streams[name], self.trackers.get(name)
        feeds = self.lowered.of(name)
        keeping = None if self.master is None else self.master.keeping(stream)
        jobs = {feed.name: self._job(feed, columns, source, now, keeping) for feed in feeds}
        new_ids: dict[str, pl.DataFrame] = {}

        def identify(ids: pl.DataFrame) -> pl.DataFrame:
            return left_out(stream, tracker, self.store, ids, new_ids)

        parts = Reduction(feeds, jobs, columns, identify).run(rows)
        epoch = parts[name]
        before = self._watermarks(name)
        reduced = clock_time.perf_counter()
        commit = self._stepped({name: epoch.observed}, self._deltas(jobs, parts), now, {})
        for part in parts.values():
            self._late_in_merge(stream, part, commit.changes)
        commit.kind, commit.query, commit.epoch, commit.offsets = "epoch", source.query, source.epoch, source.offsets
        commit.refused, commit.rows = _both(self._refused(parts), commit.refused), shown(jobs, parts)
        commit.mark = Mark(name, before, self._watermarks(name))
        if keeping is not None:
            commit.number, commit.files = keeping.commit, kept_files(keeping, source, epoch, commit.refused)
        commit.retried = {} if source.retried is None else {name: source.retried}
        commit.counters = {
            f"{name}.{'events' if source.retried is None else 'retried'}": epoch.rows,
            **_counted(commit.refused),
        }
        if source.step is not None:
            commit.memory = {name: source.step.memory}
            told = {f"{name}.{of}": count for of, count in source.step.counters.items()}
            commit.counters = {**commit.counters, **told}
        commit.new_ids = new_ids
        if new_ids and tracker is not None and tracker.watermark > BEGINNING:
            commit.forget_ids = {name: tracker.watermark - stream.id_horizon}
        merged = clock_time.perf_counter()
        taken = {"rows": epoch.rows, "reduce": reduced - started, "merge": merged - reduced}
        commit.timings = json.dumps({**taken, **source.notes, **self.tables.notes(self._flows_of(name))})
        self._commit(commit)
        return commit

    def turn_tables(self) -> None:
        """From here on views read the versions of tables that were read last."""
        if self.tables.turn():
            self._relower(self._lower_again())

    def take_tables(self, given: Mapping[str, tuple[tuple[object, ...], ...]]) -> None:
        """Tables have these rows from here on, as a script says."""
        if given:
            self.tables.put(given)
            self._relower(self._lower_again())

    def _flows_of(self, stream: str) -> list[Flow]:
        """What views and sinks read of a stream."""
        flows = [*(kept.plan.written.input for kept in self._fed().values()), *self.flows.values()]
        return [flow for flow in flows if any(source.name == stream for source in flow.sources)]

    def _refused(self, parts: Mapping[str, Epoch]) -> dict[str, pl.DataFrame]:
        """The rows that an epoch refused; what a generation in the making refused is nobody's loss."""
        found, hidden = refused(parts.values()), list(self.beside)
        if not hidden:
            return found
        mine = {kind: frame.filter(~pl.col("view").is_in(hidden).fill_null(False)) for kind, frame in found.items()}
        return {kind: frame for kind, frame in mine.items() if frame.height}

    def _watermarks(self, stream: str) -> dict[str, Instant]:
        """The watermarks of the views that read a stream, as a commit's mark keeps them."""
        found: dict[str, Instant] = {}
        own: dict[str, tuple[str, Instant]] = {}
        for name, (key, mark) in self.inputs.marks(stream).items():
            own[name] = key, mark
            found[key] = max(found.get(key, BEGINNING), mark)
        for name, kept in self.views.items():
            sources = sorted(source.name for source in kept.plan.written.input.sources)
            if stream in sources:
                key = ",".join(sources)
                own[name] = key, kept.time.watermark
                found[key] = max(found.get(key, BEGINNING), kept.time.watermark)
        return found | {f"view:{name}": mark for name, (key, mark) in own.items() if mark != found[key]}

    def _job(self, feed: Feed, columns: tuple[str, ...], source: Source, now: Instant, keeping: Keeping | None) -> Job:
        """What the tasks do with a feed."""
        kept = {view: kept for view, kept in self._fed().items() if feed.name in kept.plan.sources}
        fed, plans = tuple(kept), tuple(one.plan for one in kept.values())
        tracker = self.trackers.get(feed.source.name)
        shown = tuple(
            RowsOut(name, Plan(output.view), output.columns)
            for name, output in self.lowered.outputs.items()
            if feed.name in Plan(output.view).sources
        )
        return Job(
            feed.source,
            feed.stream,
            feed.schema.names if feed.prefix else columns,
            fed,
            self._sharing.get(feed.name, Sharing(feed.name, plans, ())),
            tuple(one.time.watermark for one in kept.values()),
            source.epoch if source.retried is None else source.epoch + RETRIED,
            now,
            BEGINNING if tracker is None else tracker.newest,
            sampled=feed.name not in self._sharing,
            place=feed.place,
            outputs=shown,
            keeping=keeping if feed.place is None else None,
            decoded=source.retried is not None,
        )

    def _deltas(self, jobs: Mapping[str, Job], parts: Mapping[str, Epoch]) -> dict[str, pl.DataFrame]:
        """Each view's deltas, from all the feeds that it reads. What feeds look like decides who shares from now on."""
        found: dict[str, list[pl.DataFrame]] = {}
        for feed, part in parts.items():
            job, sharing = jobs[feed], part.sharing
            if part.sample is not None and job.views:
                self._sharing[feed] = share(feed, job.sharing.plans, part.sample, max(part.rows, 1))
            if part.batches and sharing is not None:
                for view, deltas in zip(job.views, sharing.deltas(part.batches, job.watermarks), strict=True):
                    found.setdefault(view, []).append(deltas)
        fed = self._fed()
        return {view: combine(fed[view].plan, frames) for view, frames in found.items()}

    def _late_in_merge(self, stream: Stream, epoch: Epoch, changes: Mapping[str, Change]) -> None:
        """Rows of merging windows that only the merge could tell to be late."""
        if not epoch.suspects:
            return
        suspects = pl.concat(epoch.suspects).unique(["__partition", "__offset"])
        for view, change in changes.items():
            if change.late.height:
                found = change.late.join(suspects, on=["__partition", "__offset"])
                found = found.with_columns(late_reason().alias("__reason"))
                epoch.refused.setdefault("late", []).append(refusals(stream.name, view, found))

    # ticks

    def tick(self, now: Instant, fixed: Mapping[str, Instant] | None = None) -> Commit | None:
        """Time passes: periodic triggers fire, windows of idle streams close. Nothing is written if nothing changed."""
        times = {name: kept.time.watermark for name, kept in self.views.items()}
        commit = self._stepped({}, {}, now, fixed or {})
        passed = self.inputs.passed(now)
        changes = [*commit.changes.values(), *(change for _, change in commit.stacked)]
        if times == commit.view_times and not passed and not any(change.taken.height for change in changes):
            return None
        commit.timings = json.dumps({"times": passed}) if passed else "{}"
        self._commit(commit)
        self.inputs.told(passed)
        return commit

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
            counters=_counted(refused),
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
            if retention is not None and kept.time.watermark > BEGINNING:
                before = kept.time.watermark - retention
                if before > self._expired.get(name, BEGINNING) + retention // EXPIRE_STEPS:
                    found[name] = before
        return found


def _both(first: Mapping[str, pl.DataFrame], second: Mapping[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """Refused rows of two origins, by kind."""
    kinds = dict.fromkeys([*first, *second])
    return {kind: pl.concat([part[kind] for part in (first, second) if kind in part]) for kind in kinds}


def _counted(refused: Mapping[str, pl.DataFrame]) -> dict[str, int]:
    """How many rows of which stream were refused, for the counters."""
    found: dict[str, int] = {}
    for kind, frame in refused.items():
        for stream, count in frame.group_by("stream").len().iter_rows():
            found[f"{stream}.{kind}"] = count
    return found
