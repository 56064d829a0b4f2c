"""The engine without its queries: runs epochs and ticks, and commits them.

An epoch: Spark's tasks reduce the rows; here their records come together, duplicates are found, every view takes its
step, and all of it is one commit of the store. A tick is the same without events.
"""

from __future__ import annotations

import logging
import time as clock_time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import polars as pl

from penstock.history.events.event_history import EventHistory
from penstock.model.stream import Flow, Stream
from penstock.model.time import Instant
from penstock.runtime.commit.consumers import Consumers
from penstock.runtime.commit.refusals import counted, late_in_merge, lateness_of, together, warn_of_dead_files
from penstock.runtime.commit.registry import Registry
from penstock.runtime.commit.replay import LIVE, PastCommit, Replay, replays
from penstock.runtime.commit.shards import Shards
from penstock.runtime.commit.stepper import Stepper, StepResult
from penstock.runtime.commit.work import CommitWork
from penstock.runtime.derived.base import Rows, in_stages, read_through
from penstock.runtime.epoch.gather import kept_files, refused
from penstock.runtime.epoch.origin import EpochOrigin
from penstock.runtime.epoch.undo import undone_on_failure
from penstock.runtime.tables.tables import Tables
from penstock.store import Commit, Store
from penstock.store.figures import Figures
from penstock.store.marks import Mark
from penstock.store.operator_timings import timing_details

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_log = logging.getLogger("penstock.runtime")


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
        history: EventHistory | None = None,
        tables: Tables | None = None,
        shards: Shards | None = None,
        open_rows: int = 250_000,
    ) -> None:
        self.store = store
        self.registry = Registry(
            streams, store, now, caught_up, flows=flows, session=session, history=history, tables=tables, shards=shards
        )
        self._stepper = Stepper(self.registry, open_rows)
        self._consumers = Consumers(self.registry)
        self._leaps = 0

    def epoch(self, name: str, columns: tuple[str, ...], rows: Rows, source: EpochOrigin, now: Instant) -> Commit:
        """One epoch of a stream, and of all that lies behind it, committed."""
        with self._attempt(now) as work:
            return self._epoch(name, columns, rows, source, work)

    @contextmanager
    def _attempt(self, now: Instant) -> Iterator[CommitWork]:
        """The work of a commit. If it fails, it has no effect."""
        with ExitStack() as attempt:
            attempt.enter_context(undone_on_failure(self.registry))
            spool = attempt.enter_context(self.registry.shards.writing())
            yield CommitWork(self._stepper.next_number, now, spool, attempt)

    def _epoch(self, name: str, columns: tuple[str, ...], rows: Rows, source: EpochOrigin, work: CommitWork) -> Commit:
        started, now = clock_time.perf_counter(), work.now
        registry = self.registry
        registry.turn_tables()
        stream, tracker = registry.streams[name], registry.trackers.get(name)
        if source.partitions is not None:
            self.know_partitions(name, *source.partitions, now)
        keeping = self._consumers.keeping(stream, source.query, source.epoch, work)
        identifier = registry.shards.identifier(stream, tracker, work.spool)
        jobs, parts = self._consumers.reduce(name, columns, rows, source, work, keeping, identifier)
        before, reduced = self._consumers.times(name), clock_time.perf_counter()
        self._consumers.take(name, jobs, parts, work)
        self._consumers.note_times(work)
        result = self._stepper.step({name: parts[name].observed}, work, {}, self._consumers.reduce_made)
        rejected = self._rejected(work, result)
        self._consumers.keep_failed(work)
        warn_of_dead_files(name, rejected)
        work.count({f"{name}.{'events' if source.retried is None else 'retried'}": parts[name].rows})
        work.count(counted(rejected))
        if source.step is not None:
            work.count({f"{name}.{of}": count for of, count in source.step.counters.items()})
        versions = registry.lowered.versions(registry.flows_of(name)) | work.versions
        lateness = lateness_of(name, source, rejected.get("late"), registry.operators_of(name))
        stale = registry.tables.why_stale(versions)
        figures = Figures(parts[name].rows, lateness, source.intake, stale, source.arrivals(parts[name], now))
        is_derived = source.step is not None and source.step.inputs is not None
        ids = identifier.outcome(tracker)
        own_files = () if keeping is None else kept_files(keeping, source, parts[name], _of_stream(rejected, name))
        commit = Commit(
            kind="epoch",
            now=now,
            query=source.query,
            epoch=source.epoch,
            offsets=source.offsets,
            changes=result.changes,
            stacked=result.stacked,
            segments=result.segments,
            rows=work.shown,
            view_times=result.view_times,
            trackers={name: tracker.snapshot() for name, tracker in registry.trackers.items()},
            refused=rejected,
            new_ids=ids.new,
            forget_ids=ids.forget,
            id_segments=ids.segments,
            counters=work.counters,
            expire=result.expire,
            figures=figures,
            timings={"reduce": reduced - started, "merge": clock_time.perf_counter() - reduced},
            details={
                **({} if source.step is None else source.step.notes),
                **timing_details(work.timings),
                **source.work_details(name),
            },
            files=(*own_files, *work.files),
            mark=Mark.of(name, before, self._consumers.times(name)),
            read_through=read_through(source.offsets) if is_derived else None,
            retried=source.retried or {},
            memory={} if source.step is None else {name: source.step.memory},
            versions=versions,
            operators=work.operators,
            made=self._consumers.marks(work),
        )
        self._stepper.commit(commit, result)
        return commit

    def tick(self, now: Instant, fixed: Mapping[str, Instant] | None = None) -> Commit | None:
        """Time passes: periodic triggers fire, windows of idle streams close. Nothing is written if nothing changed.

        `fixed` are watermarks that are set from outside.
        """
        registry = self.registry
        with self._attempt(now) as work:
            times = {name: view.time.watermark for name, view in registry.views.items()}
            self._consumers.note_times(work)
            result = self._stepper.step({}, work, fixed or {}, self._consumers.reduce_made)
            passed = registry.inputs.passed(now)
            same = times == result.view_times and not work.operators
            if not fixed and same and not passed and result.is_empty:
                return None
            commit = self._without_source(work, result, passed)
            self._stepper.commit(commit, result)
        registry.inputs.announce(passed)
        return commit

    def _without_source(
        self, work: CommitWork, result: StepResult, passed: Mapping[str, Instant] | None = None
    ) -> Commit:
        """A commit that no source has caused."""
        rejected = self._rejected(work, result)
        self._consumers.keep_failed(work)
        work.count(counted(rejected))
        return Commit(
            kind="tick",
            now=work.now,
            changes=result.changes,
            stacked=result.stacked,
            segments=result.segments,
            rows=work.shown,
            view_times=result.view_times,
            trackers={name: tracker.snapshot() for name, tracker in self.registry.trackers.items()},
            refused=rejected,
            counters=work.counters,
            expire=result.expire,
            files=work.files,
            passed=passed or {},
            versions=work.versions,
            operators=work.operators,
            made=self._consumers.marks(work),
            details=timing_details(work.timings),
        )

    def enter(self, entering: Mapping[str, pl.DataFrame], retried: Mapping[str, pl.DataFrame], now: Instant) -> Commit:
        """Rows come to operators again, by the names of their inputs: dead letters, whose places are `retried`."""
        with self._attempt(now) as work:
            work.entering |= {name: [rows] for name, rows in entering.items()}
            self._consumers.note_times(work)
            result = self._stepper.step({}, work, {}, self._consumers.reduce_made)
            commit = replace(self._without_source(work, result), retried=retried)
            self._stepper.commit(commit, result)
            return commit

    # what operators give

    def begin_operators(self, now: Instant) -> None:
        """New operators read the past of their inputs. No epoch runs meanwhile."""
        registry = self.registry
        order = [name for stage in in_stages(registry.streams) for name in stage if name in registry.operators]
        operators = [registry.operators[name] for name in order]
        for replay, after in replays(operators, registry.store, registry.history):
            count, past = 0, None
            for past in replay.commits(after):
                count += 1
                self._replay(replay, past)
            if past is not None:
                _log.info("%s: the past is read, %d commits", ", ".join(sorted(replay.names)), count)
                self._replay(replay, replace(past, number=LIVE, now=now, entering={}, dead=()))

    def _replay(self, replay: Replay, past: PastCommit) -> None:
        """One commit of the past for new operators. Its number is `LIVE` once all of it is read."""
        with self._attempt(past.now) as work:
            work.replay |= dict.fromkeys(replay.names, past)
            work.entering |= {into: list(frames) for into, frames in past.entering.items()}
            work.refused += [{"dead": rows} for rows in past.dead]
            self._consumers.note_times(work)
            result = self._stepper.step({}, work, {}, self._consumers.reduce_made)
            self._stepper.commit(self._without_source(work, result), result)

    def _rejected(self, work: CommitWork, result: StepResult) -> dict[str, pl.DataFrame]:
        """All rows that a commit rejects."""
        registry = self.registry
        late = [
            late_in_merge(registry.streams[name], parts, result.late, registry.views)
            for name, parts in work.parts.items()
        ]
        parts = [part for several in work.parts.values() for part in several]
        return together([refused(parts), *late, result.refused, *work.refused], registry.generations)

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
        """A partition without events holds time back until it is idle: so the tracker must know it."""
        tracker = self.registry.trackers.get(name)
        if tracker is not None:
            tracker.know(partitions, quiet, now)

    def take_tables(self, rows: Mapping[str, tuple[tuple[object, ...], ...]]) -> None:
        """Sets the rows of tables, for scripts."""
        if rows:
            self.registry.tables.put(rows)
            self.registry.lower_again()


def _of_stream(rejected: Mapping[str, pl.DataFrame], name: str) -> dict[str, pl.DataFrame]:
    """The rejected rows of one stream."""
    return {kind: frame.filter(pl.col("stream") == name) for kind, frame in rejected.items()}
