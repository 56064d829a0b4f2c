"""The engine without its queries: what an epoch and a tick do, and how they become commits.

An epoch: the job reduces the rows in Spark's tasks; here their records come together, ids are told apart, every view
takes its step, and all of it is one commit of the store. A tick is the same without events.
"""

from __future__ import annotations

import json
import logging
import time as clock_time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from penstock.engine.derived import Rows, Step
from penstock.engine.epoch import Epoch, kept_files, refused, shown
from penstock.engine.feeds import Feed
from penstock.engine.ids import left_out
from penstock.engine.job import Job, RowsOut
from penstock.engine.records import late_reason, refusals
from penstock.engine.reduction import Reduction
from penstock.engine.steps import Steps, counted
from penstock.kernel.plan import Plan
from penstock.kernel.reduce import combine
from penstock.kernel.share import Sharing, share
from penstock.kernel.step import Change
from penstock.lake.writer import Keeping
from penstock.logs.base import FILE
from penstock.model.stream import Flow, Stream
from penstock.model.time import BEGINNING, Instant
from penstock.store import Commit
from penstock.store.base import LATE_EVENTS
from penstock.store.file import Mark

_log = logging.getLogger("penstock.engine")

#: Rows that DataFrame code makes of dead letters fed in again have places of their own: of epochs from here on.
RETRIED = 1 << 24


@dataclass(frozen=True)
class Source:
    """Where an epoch comes from: a query (one checkpoint of Spark's), its number there, and its offsets."""

    query: str
    epoch: int
    offsets: str
    before: str | None = None  # the offsets of the epoch before it
    notes: Mapping[str, Any] = field(default_factory=dict)  # what the commit remembers with its timings
    retried: pl.DataFrame | None = field(default=None, compare=False)  # places of dead letters that come again
    from_files: bool = False  # the dead letters are files, which are read again
    step: Step | None = field(default=None, compare=False)  # of a stream that is made from others


class Engine(Steps):
    """Streams and views on a store. The caller sees to it that epochs and ticks come one after the other."""

    # epochs

    def epoch(self, name: str, columns: tuple[str, ...], rows: Rows, source: Source, now: Instant) -> Commit:
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
        self._tell_dead_files(name, commit.refused)
        commit.counters = {
            f"{name}.{'events' if source.retried is None else 'retried'}": epoch.rows,
            **counted(commit.refused),
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
        commit.versions, failures = self.tables.joined(self._flows_of(name))
        tables = {"tables": commit.versions} if commit.versions else {}
        stale = {"stale": failures} if failures else {}
        late = {"late": _late_note(name, source, commit)}
        commit.timings = json.dumps({**taken, **source.notes, **tables, **stale, **late})
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

    def _tell_dead_files(self, stream: str, refused: Mapping[str, pl.DataFrame]) -> None:
        """A file that cannot be read is more than one row: somebody should look at it."""
        if "dead" not in refused:
            return
        files = refused["dead"].filter(pl.col("extent") == FILE)
        for path, reason in files.select("row", "reason").iter_rows():
            _log.warning(
                "the stream '%s' goes on without the file '%s': %s. When it is repaired: penstock dead-letter retry %s",
                stream, path, reason, stream,
            )  # fmt: skip

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
            decoded=source.retried is not None and not source.from_files,
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
        """Time passes: periodic triggers fire, windows of idle streams close. Nothing is written if nothing changed.

        `fixed` are watermarks that are set from outside.
        """
        times = {name: kept.time.watermark for name, kept in self.views.items()}
        commit = self._stepped({}, {}, now, fixed or {})
        passed = self.inputs.passed(now)
        changes = [*commit.changes.values(), *(change for _, change in commit.stacked)]
        moved = fixed or times != commit.view_times or passed
        if not moved and not any(change.taken.height for change in changes):
            return None
        commit.timings = json.dumps({"times": passed}) if passed else "{}"
        self._commit(commit)
        self.inputs.told(passed)
        return commit


def _late_note(name: str, source: Source, commit: Commit) -> dict[str, int]:
    """How much of an epoch was late, for its commit: events, and pairs of an event and a view.

    A stream that is made from others may find events late that it reads. They are no rows of its own: `inputs` is how
    many it has read, `late_inputs` how many of those were late.
    """
    late = commit.refused.get("late")
    rows = pl.DataFrame(schema={"view": pl.String}) if late is None else late.filter(pl.col("stream") == name)
    note = {"events": commit.counters.get(f"{name}.{LATE_EVENTS}", 0), "pairs": rows.height}
    if source.step is not None and source.step.inputs is not None:
        note |= {"inputs": source.step.inputs, "late_inputs": rows["view"].null_count()}
    return note


def _both(first: Mapping[str, pl.DataFrame], second: Mapping[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """Refused rows of two origins, by kind."""
    kinds = dict.fromkeys([*first, *second])
    return {kind: pl.concat([part[kind] for part in (first, second) if kind in part]) for kind in kinds}
