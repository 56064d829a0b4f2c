"""The engine without its queries: what an epoch and a tick do, and how they become commits.

An epoch: Spark's tasks reduce the rows; here their records come together, duplicates are found, every view takes its
step, and all of it is one commit of the store. A tick is the same without events.
"""

from __future__ import annotations

import time as clock_time
from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING

from penstock.history.events.master import Master
from penstock.history.events.writer import Keeping
from penstock.model.stream import Flow, Stream
from penstock.model.time import Instant
from penstock.runtime.commit.refusals import counted, late_in_merge, lateness_of, together, warn_of_dead_files
from penstock.runtime.commit.registry import Registry
from penstock.runtime.commit.shards import Shards
from penstock.runtime.commit.stepper import Stepper
from penstock.runtime.derived.base import Rows, read_through
from penstock.runtime.epoch.gather import kept_files, refused, shown
from penstock.runtime.epoch.jobs import Jobs
from penstock.runtime.epoch.origin import EpochOrigin
from penstock.runtime.epoch.reduction import Reduction
from penstock.runtime.epoch.undo import undone_on_failure
from penstock.runtime.tables.tables import Tables
from penstock.state.spool import Spool
from penstock.store import Commit, Store
from penstock.store.figures import Figures
from penstock.store.marks import Mark, ReaderTime

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Engine:
    """Streams and views on a store. The caller sees to it that epochs and ticks come one after the other.

    `caught_up` says whether a stream has read all that its source has. An epoch or a tick that fails changes nothing.
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
        master: Master | None = None,
        tables: Tables | None = None,
        shards: Shards | None = None,
        open_rows: int = 250_000,
    ) -> None:
        self.store = store
        self.registry = Registry(
            streams, store, now, caught_up, flows=flows, session=session, master=master, tables=tables, shards=shards
        )
        self._stepper = Stepper(self.registry, open_rows)
        self._jobs = Jobs(self.registry)
        self._leaps = 0

    def epoch(self, name: str, columns: tuple[str, ...], rows: Rows, source: EpochOrigin, now: Instant) -> Commit:
        """One epoch of a stream, committed."""
        registry = self.registry
        with ExitStack() as attempt:
            attempt.enter_context(undone_on_failure(registry))
            keeping = None
            if registry.master is not None:
                writing = registry.master.keeping(registry.streams[name], source.query, source.epoch)
                keeping = attempt.enter_context(writing)
            spool = attempt.enter_context(registry.shards.writing())
            return self._epoch(name, columns, rows, source, now, keeping, spool)

    def _epoch(
        self,
        name: str,
        columns: tuple[str, ...],
        rows: Rows,
        source: EpochOrigin,
        now: Instant,
        keeping: Keeping | None,
        spool: Spool,
    ) -> Commit:
        started = clock_time.perf_counter()
        registry = self.registry
        registry.turn_tables()
        stream, tracker = registry.streams[name], registry.trackers.get(name)
        if source.partitions is not None:
            self.know_partitions(name, *source.partitions, now)
        feeds = registry.lowered.of(name)
        jobs = {feed.name: self._jobs.of(feed, columns, source, now, keeping, spool) for feed in feeds}
        identifier = registry.shards.identifier(stream, tracker, spool)
        parts = Reduction(feeds, jobs, columns, identifier).run(rows)
        before, reduced = self._watermarks(name), clock_time.perf_counter()
        deltas, spooled = self._jobs.deltas(jobs, parts), self._jobs.spooled(jobs, parts)
        result = self._stepper.step({name: parts[name].observed}, deltas, now, {}, spool, spooled)
        late = late_in_merge(stream, parts.values(), result.late, registry.views)
        rejected = together([refused(parts.values()), late, result.refused], registry.generations)
        warn_of_dead_files(name, rejected)
        counters = {f"{name}.{'events' if source.retried is None else 'retried'}": parts[name].rows}
        counters |= counted(rejected)
        if source.step is not None:
            counters |= {f"{name}.{of}": count for of, count in source.step.counters.items()}
        versions = registry.lowered.versions(registry.flows_of(name))
        lateness = lateness_of(name, source, rejected.get("late"), counters)
        figures = Figures(parts[name].rows, lateness, source.intake, registry.tables.why_stale(versions))
        is_derived = source.step is not None and source.step.inputs is not None
        ids = identifier.outcome(tracker)
        commit = Commit(
            kind="epoch",
            now=now,
            query=source.query,
            epoch=source.epoch,
            offsets=source.offsets,
            changes=result.changes,
            stacked=result.stacked,
            segments=result.segments,
            rows=shown(jobs, parts),
            view_times=result.view_times,
            trackers={name: tracker.snapshot() for name, tracker in registry.trackers.items()},
            refused=rejected,
            new_ids=ids.new,
            forget_ids=ids.forget,
            id_segments=ids.segments,
            counters=counters,
            expire=result.expire,
            figures=figures,
            timings={"reduce": reduced - started, "merge": clock_time.perf_counter() - reduced},
            details={} if source.step is None else source.step.notes,
            files=() if keeping is None else kept_files(keeping, source, parts[name], rejected),
            mark=Mark.of(name, before, self._watermarks(name)),
            read_through=read_through(source.offsets) if is_derived else None,
            retried={} if source.retried is None else {name: source.retried},
            memory={} if source.step is None else {name: source.step.memory},
            versions=versions,
        )
        self._stepper.commit(commit, result)
        return commit

    def tick(self, now: Instant, fixed: Mapping[str, Instant] | None = None) -> Commit | None:
        """Time passes: periodic triggers fire, windows of idle streams close. Nothing is written if nothing changed.

        `fixed` are watermarks that are set from outside.
        """
        registry = self.registry
        with undone_on_failure(registry), registry.shards.writing() as spool:
            times = {name: view.time.watermark for name, view in registry.views.items()}
            result = self._stepper.step({}, {}, now, fixed or {}, spool)
            passed = registry.inputs.passed(now)
            if not fixed and times == result.view_times and not passed and result.is_empty:
                return None
            commit = Commit(
                kind="tick",
                now=now,
                changes=result.changes,
                stacked=result.stacked,
                segments=result.segments,
                view_times=result.view_times,
                trackers={name: tracker.snapshot() for name, tracker in registry.trackers.items()},
                refused=result.refused,
                counters=counted(result.refused),
                expire=result.expire,
                passed=passed,
            )
            self._stepper.commit(commit, result)
        registry.inputs.told(passed)
        return commit

    def follow_clock(self, leaps: int, now: Instant) -> None:
        """After a leap of the clock nothing is idle, as after a start. `leaps` is how many there were so far."""
        if leaps > self._leaps:
            self._leaps = leaps
            self.registry.resume(now)

    def absorb(self, other: Engine) -> None:
        """Goes on with the streams and views of another engine too, which is not used any more."""
        self.registry.absorb(other.registry)
        self._stepper.absorb(other._stepper)

    def know_partitions(self, name: str, partitions: Collection[int], quiet: Collection[int], now: Instant) -> None:
        """A partition that shows nothing yet holds time back until it is idle: so the tracker must know of it."""
        tracker = self.registry.trackers.get(name)
        if tracker is not None:
            tracker.know(partitions, quiet, now)

    def take_tables(self, rows: Mapping[str, tuple[tuple[object, ...], ...]]) -> None:
        """Tables have these rows from here on, as a script says."""
        if rows:
            self.registry.tables.put(rows)
            self.registry.lower_again()

    def _watermarks(self, stream: str) -> dict[str, ReaderTime]:
        """The watermarks of the views and derived streams that read a stream."""
        times = self.registry.inputs.marks(stream)
        for name, view in self.registry.views.items():
            sources = tuple(source.name for source in view.plan.written.input.sources)
            if stream in sources:
                times[name] = ReaderTime(sources, view.time.watermark)
        return times
