"""The engine without its queries: what an epoch and a tick do to the views, and how they become one commit.

An epoch: the job reduces the rows in Spark's tasks; here their records come together, ids are told apart, every view
takes its step, and all of it is one commit of the store. A tick is the same without events.
"""

from __future__ import annotations

import json
import time as clock_time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from penstock.engine.epoch import Epoch, gathered, unpacked_ids
from penstock.engine.job import RECORD, IdJob, Job, late_reason, refusals
from penstock.engine.needs import check_runnable
from penstock.kernel.fire import Time
from penstock.kernel.plan import Plan
from penstock.kernel.share import Sharing, share
from penstock.kernel.step import Change, step
from penstock.model.stream import Stream
from penstock.model.time import BEGINNING, Instant
from penstock.model.view import View
from penstock.model.watermarks import Observation, Tracker, ViewTime
from penstock.store import Commit, Store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


TOO_OLD = "older than the horizon within which ids are known"


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


class Engine:
    """Streams and views on a store. The caller sees to it that epochs and ticks come one after the other."""

    def __init__(
        self,
        streams: Mapping[str, Stream],
        store: Store,
        now: Instant,
        caught_up: Callable[[str], bool],
    ) -> None:
        self.streams, self.store = dict(streams), store
        self._caught_up = caught_up
        saved = store.trackers()
        self.trackers = {
            name: Tracker.restore(stream.watermark, saved[name]) if name in saved else Tracker(stream.watermark)
            for name, stream in self.streams.items()
            if stream.watermark is not None
        }
        for tracker in self.trackers.values():
            tracker.resume(now)
        self.views: dict[str, Kept] = {}
        self._sharing: dict[str, Sharing] = {}

    # views come and go, between two commits

    def keep(self, views: Mapping[str, View]) -> None:
        """Takes up views, with the state that the store has of them."""
        for name, view in views.items():
            check_runnable(name, view)
        plans = {name: Plan(view) for name, view in views.items()}
        self.store.prepare(plans)
        times = self.store.view_times()
        for name, plan in plans.items():
            mine = {s.name: self.trackers[s.name] for s in plan.view.input.sources if s.name in self.trackers}
            self.views[name] = Kept(plan, ViewTime(mine, times.get(name, BEGINNING)))
        self._sharing.clear()

    def drop(self, name: str) -> None:
        """Gives up a view with its state."""
        del self.views[name]
        self.store.drop(name)
        self._sharing.clear()

    # epochs

    def epoch(self, name: str, columns: tuple[str, ...], rows: DataFrame, source: Source, now: Instant) -> Commit:
        """One epoch of a stream, committed."""
        started = clock_time.perf_counter()
        stream = self.streams[name]
        fed = tuple(view for view, kept in self.views.items() if name in kept.plan.sources)
        plans = tuple(self.views[view].plan for view in fed)
        sharing = self._sharing.get(name, Sharing(name, plans, ()))
        before = tuple(self.views[view].time.watermark for view in fed)
        tracker = self.trackers.get(name)
        newest = BEGINNING if tracker is None else tracker.newest
        job = Job(stream, columns, fed, sharing, before, source.epoch, now, newest, name not in self._sharing)
        new_ids: dict[str, pl.DataFrame] = {}
        if stream.id is None:
            epoch = gathered(rows.mapInArrow(job, RECORD).toArrow().to_pylist())
        else:
            epoch = self._distinct_epoch(stream, job, rows, new_ids)
        if epoch.sample is not None and plans:
            self._sharing[name] = share(name, plans, epoch.sample, max(epoch.rows, 1))
        reduced = clock_time.perf_counter()
        deltas = dict(zip(fed, sharing.deltas(epoch.batches, before), strict=True)) if epoch.batches else {}
        commit = self._stepped({name: epoch.observed}, deltas, now, {})
        self._late_in_merge(stream, epoch, commit.changes)
        commit.kind, commit.query, commit.epoch, commit.offsets = "epoch", source.query, source.epoch, source.offsets
        commit.refused = {kind: pl.concat(frames) for kind, frames in epoch.refused.items() if frames}
        commit.counters = {
            f"{name}.events": epoch.rows,
            **{f"{name}.{kind}": frame.height for kind, frame in commit.refused.items()},
        }
        commit.new_ids = new_ids
        if new_ids and tracker is not None and tracker.watermark > BEGINNING:
            commit.forget_ids = {name: tracker.watermark - stream.id_horizon}
        merged = clock_time.perf_counter()
        commit.timings = json.dumps({"rows": epoch.rows, "reduce": reduced - started, "merge": merged - reduced})
        self.store.commit(commit)
        return commit

    def _distinct_epoch(self, stream: Stream, job: Job, rows: DataFrame, new_ids: dict[str, pl.DataFrame]) -> Epoch:
        """An epoch of a stream with ids: a first pass over the ids tells which rows the second one leaves out.

        The rows are kept between the two, so that both see the same ones at the same places.
        """
        tracker = self.trackers.get(stream.name)
        watermark = BEGINNING if tracker is None else tracker.watermark
        kept = rows.persist()
        try:
            found = unpacked_ids(kept.mapInArrow(IdJob(job), RECORD).toArrow().to_pylist(), stream)
            known = self.store.ids(stream.name, found.select("__id").unique())
            place = ["__partition", "__offset"]
            oldest = watermark - stream.id_horizon if watermark > BEGINNING else BEGINNING
            old = found.filter(pl.col("__at") < oldest)
            told = found.filter(pl.col("__at") >= oldest).sort(place)
            first = told.join(known, on="__id", how="anti", maintain_order="left")
            first = first.filter(pl.col("__id").is_first_distinct())
            again = told.join(first, on=place, how="anti")
            reasons = {"duplicate": (again, "the id was accepted before"), "late": (old, TOO_OLD)}
            left_out = pl.concat(
                frame.select(*place, pl.lit(kind).alias("__kind"), pl.lit(reason).alias("__reason"))
                for kind, (frame, reason) in reasons.items()
            )
            new_ids[stream.name] = first.select("__id", "__at")
            return gathered(kept.mapInArrow(job.without(left_out), RECORD).toArrow().to_pylist())
        finally:
            kept.unpersist()

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
        if times == commit.view_times and not any(change.taken.height for change in commit.changes.values()):
            return None
        self.store.commit(commit)
        return commit

    def _stepped(
        self,
        observed: Mapping[str, Observation],
        deltas: Mapping[str, pl.DataFrame],
        now: Instant,
        fixed: Mapping[str, Instant],
    ) -> Commit:
        """Moves time and steps every view; what comes out is one commit."""
        before = {name: kept.time.watermark for name, kept in self.views.items()}
        caught_up = {name: self._caught_up(name) for name in self.streams}
        for name, tracker in self.trackers.items():
            tracker.advance(
                observed.get(name, Observation()), now=now, caught_up=caught_up[name], fixed=fixed.get(name)
            )
        changes: dict[str, Change] = {}
        for name, kept in self.views.items():
            kept.time.look(now, caught_up)
            time = Time(before[name], kept.time.watermark, now, kept.time.reached)
            found = [deltas[name]] if name in deltas else []
            changes[name] = step(kept.plan, found, self.store.state(name), time)
        return Commit(
            kind="tick",
            now=now,
            changes=changes,
            view_times={name: kept.time.watermark for name, kept in self.views.items()},
            trackers={name: tracker.snapshot() for name, tracker in self.trackers.items()},
        )
