"""A running app: one Structured Streaming query a stream, epochs and ticks one after the other, each one commit.

The commit protocol: Spark writes an epoch's offsets to its log before it calls us, and marks it done after we return.
In between the epoch's deltas, panes, refusals, watermarks and offsets go into the store in one transaction. An epoch
that the store has already is skipped; a store that lacks epochs which Spark has done refuses to run.
"""

from __future__ import annotations

import json
import threading
import time as clock_time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from penstock.engine.job import RECORD, REFUSED, Job, late_reason, unpack
from penstock.engine.needs import check_runnable, needed
from penstock.engine.session import spark_session
from penstock.errors import PenstockError
from penstock.kernel.fire import Time
from penstock.kernel.plan import Plan
from penstock.kernel.share import Batch, Sharing, share
from penstock.kernel.reduce import Reduced
from penstock.kernel.step import Change, step
from penstock.logs import Log
from penstock.model.stream import Stream
from penstock.model.time import BEGINNING, Instant
from penstock.model.view import View
from penstock.model.watermarks import Observation, Seen, Tracker, ViewTime
from penstock.store import Commit, SqliteStore

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery


class RunError(PenstockError):
    """The app cannot go on; the message says why and what to do."""


def wall_clock() -> Instant:
    return clock_time.time_ns() // 1000


@dataclass
class _Kept:
    """A view as the run keeps it."""

    plan: Plan
    time: ViewTime


@dataclass
class Epoch:
    """What the tasks of one epoch sent."""

    rows: int = 0
    observed: Observation = field(default_factory=Observation)
    batches: list[Batch] = field(default_factory=list)
    refused: dict[str, list[pl.DataFrame]] = field(default_factory=dict)
    suspects: list[pl.DataFrame] = field(default_factory=list)


class Run:
    """Runs an app in a directory. `tick` is how often time passes without events; `clock` can be set for tests."""

    def __init__(
        self,
        name: str,
        streams: Mapping[str, Stream],
        views: Mapping[str, View],
        directory: Path,
        *,
        spark: SparkSession | None = None,
        master: str = "local[*]",
        tick: float = 0.5,
        epoch_every: str = "0 seconds",
        clock: Callable[[], Instant] = wall_clock,
    ) -> None:
        for view_name, view in views.items():
            check_runnable(view_name, view)
        self.name, self.streams, self.directory = name, dict(streams), directory
        self._clock, self._tick, self._every = clock, tick, epoch_every
        self._mutex = threading.RLock()
        self._stopping = threading.Event()
        self._queries: dict[str, StreamingQuery] = {}
        self._sharing: dict[str, Sharing] = {}
        self._failure: BaseException | None = None
        self.store = SqliteStore.open(directory)
        self.store.lock()
        self._spark = spark or spark_session(name, master=master)
        saved = self.store.trackers()
        self._trackers = {
            n: Tracker.restore(s.watermark, saved[n]) if n in saved else Tracker(s.watermark)
            for n, s in self.streams.items()
            if s.watermark is not None
        }
        for tracker in self._trackers.values():
            tracker.resume(self._clock())
        self._views: dict[str, _Kept] = {}
        self._keep(views)
        self._ticker = threading.Thread(target=self._tick_on, name="penstock-ticks", daemon=True)

    # views come and go

    def _keep(self, views: Mapping[str, View]) -> None:
        plans = {name: Plan(view) for name, view in views.items()}
        self.store.prepare(plans)
        times = self.store.view_times()
        for name, plan in plans.items():
            mine = {s.name: self._trackers[s.name] for s in plan.view.input.sources if s.name in self._trackers}
            self._views[name] = _Kept(plan, ViewTime(mine, times.get(name, BEGINNING)))
        self._sharing.clear()

    # queries

    def start(self) -> Run:
        """Starts reading."""
        for name in self.streams:
            self._start_query(name)
        self._ticker.start()
        return self

    def _start_query(self, name: str) -> None:
        stream = self.streams[name]
        log = stream.log
        assert isinstance(log, Log)
        columns = needed(stream, [kept.plan.view for kept in self._views.values()])
        frame = log.read(self._spark, stream.schema, columns)
        checkpoint = self.directory / "checkpoints" / name
        self._queries[name] = (
            frame.writeStream.queryName(f"{self.name}-{name}")
            .foreachBatch(lambda rows, number: self._epoch(name, columns, checkpoint, rows, number))
            .option("checkpointLocation", str(checkpoint))
            .trigger(processingTime=self._every)
            .start()
        )

    def stop(self) -> None:
        """Stops at an epoch boundary."""
        self._stopping.set()
        with self._mutex:
            for query in self._queries.values():
                query.stop()
        if self._ticker.is_alive() and threading.current_thread() is not self._ticker:
            self._ticker.join()
        self.store.close()

    def wait(self, seconds: float | None = None) -> None:
        """Waits so long, or until a query fails."""
        end = None if seconds is None else clock_time.monotonic() + seconds
        while not self._stopping.is_set() and (end is None or clock_time.monotonic() < end):
            self._raise_failure()
            left = 0.2 if end is None else min(0.2, max(0.0, end - clock_time.monotonic()))
            self._stopping.wait(left)
        self._raise_failure()

    def catch_up(self) -> None:
        """Waits until all that the logs hold now is committed."""
        for query in self._queries.values():
            try:
                query.processAllAvailable()
            except Exception:
                self._raise_failure()
                raise
        self._raise_failure()

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure
        for name, query in self._queries.items():
            error = query.exception()
            if error is not None:
                raise RunError(f"the stream «{name}» has failed", detail=str(error)[:2000])

    # epochs

    def _epoch(self, name: str, columns: tuple[str, ...], checkpoint: Path, rows: DataFrame, number: int) -> None:
        try:
            with self._mutex:
                self._do_epoch(name, columns, checkpoint, rows, number)
        except BaseException as error:
            self._failure = self._failure or error
            raise

    def _do_epoch(self, name: str, columns: tuple[str, ...], checkpoint: Path, rows: DataFrame, number: int) -> None:
        query = json.loads((checkpoint / "metadata").read_text())["id"]
        offsets = "\n".join((checkpoint / "offsets" / str(number)).read_text().splitlines()[2:])
        if self._is_done(name, query, number, offsets):
            return
        started = clock_time.perf_counter()
        stream, now = self.streams[name], self._clock()
        fed = [n for n, kept in self._views.items() if name in kept.plan.sources]
        sharing = self._sharing.setdefault(name, Sharing(name, tuple(self._views[n].plan for n in fed), ()))
        before = tuple(self._views[n].time.watermark for n in fed)
        newest = self._trackers[name].newest if name in self._trackers else BEGINNING
        job = Job(stream, columns, tuple(fed), sharing, before, number, now, newest)
        epoch = gathered(rows.mapInArrow(job, RECORD).toArrow().to_pylist(), sharing)
        reduced = clock_time.perf_counter()
        deltas = dict(zip(fed, sharing.deltas(epoch.batches, before), strict=True)) if epoch.batches else {}
        commit = self._changes({name: epoch.observed}, deltas, now)
        refused = {kind: frames[:] for kind, frames in epoch.refused.items()}
        self._late_in_merge(stream, epoch, commit.changes, refused)
        merged = clock_time.perf_counter()
        commit.kind, commit.query, commit.epoch, commit.offsets = "epoch", query, number, offsets
        commit.refused = {kind: pl.concat(frames) for kind, frames in refused.items() if frames}
        commit.counters = {"events": epoch.rows, **{k: f.height for k, f in commit.refused.items()}}
        commit.timings = json.dumps({"reduce": reduced - started, "merge": merged - reduced})
        self.store.commit(commit)

    def _is_done(self, name: str, query: str, number: int, offsets: str) -> bool:
        """Whether the store has this epoch already; refuses a store that is behind, or that knows another one."""
        progress = self.store.progress(query)
        last = -1 if progress is None else progress.epoch
        if number > last + 1:
            raise RunError(
                f"the store is behind Spark's log of the stream «{name}»: it has epoch {last}, Spark is at {number}",
                hint=f"restore the store, or read the stream again from its start: delete {self.directory}",
            )
        if number <= last:
            assert progress is not None
            if number == last and progress.offsets != offsets:
                raise RunError(f"epoch {number} of the stream «{name}» was committed with other offsets")
            return True
        return False

    def _late_in_merge(
        self, stream: Stream, epoch: Epoch, changes: Mapping[str, Change], refused: dict[str, list[pl.DataFrame]]
    ) -> None:
        if not epoch.suspects:
            return
        suspects = pl.concat(epoch.suspects).unique(["__partition", "__offset"])
        for view, change in changes.items():
            if change.late.height:
                found = change.late.join(suspects, on=["__partition", "__offset"])
                refused.setdefault("late", []).append(
                    found.select(
                        pl.lit(stream.name).alias("stream"),
                        pl.lit(view).alias("view"),
                        pl.col("__partition").alias("partition"),
                        pl.col("__offset").alias("offset"),
                        pl.col("__at").alias("at"),
                        late_reason().alias("reason"),
                        "row",
                    ).select(*REFUSED)
                )

    # ticks

    def _tick_on(self) -> None:
        while not self._stopping.wait(self._tick):
            try:
                with self._mutex:
                    if not self._stopping.is_set():
                        self.tick()
            except BaseException as error:
                self._failure = self._failure or error
                return

    def tick(self) -> None:
        """Time passes: periodic triggers fire and windows of idle streams close. Nothing is written if nothing does."""
        with self._mutex:
            times = {name: kept.time.watermark for name, kept in self._views.items()}
            commit = self._changes({}, {}, self._clock())
            if times != commit.view_times or any(c.taken.height for c in commit.changes.values()):
                commit.kind = "tick"
                self.store.commit(commit)

    def _changes(
        self, observed: Mapping[str, Observation], deltas: Mapping[str, pl.DataFrame], now: Instant
    ) -> Commit:
        """Moves time and steps every view; what comes out is one commit."""
        before = {name: kept.time.watermark for name, kept in self._views.items()}
        caught_up = {name: self._is_caught_up(name) for name in self.streams}
        for name, tracker in self._trackers.items():
            tracker.advance(observed.get(name, Observation()), now=now, caught_up=caught_up[name])
        changes: dict[str, Change] = {}
        for name, kept in self._views.items():
            kept.time.look(now, caught_up)
            time = Time(before[name], kept.time.watermark, now, kept.time.reached)
            found = [deltas[name]] if name in deltas else []
            changes[name] = step(kept.plan, found, self.store.state(name), time)
        return Commit(
            kind="tick",
            now=now,
            changes=changes,
            view_times={name: kept.time.watermark for name, kept in self._views.items()},
            trackers={name: tracker.snapshot() for name, tracker in self._trackers.items()},
        )

    def _is_caught_up(self, name: str) -> bool:
        """Whether a stream's query has read all that its log has. One that is starting has not."""
        query = self._queries.get(name)
        if query is None:
            return False
        status: dict[str, Any] = query.status
        return not status["isDataAvailable"] and "Waiting" in status["message"]


def gathered(records: list[dict[str, Any]], sharing: Sharing) -> Epoch:
    """The tasks' records, put together."""
    epoch = Epoch()
    partitions: dict[int, Seen] = {}
    lateness: dict[int, int] = {}
    bases: dict[int, list[pl.DataFrame]] = {}
    own: dict[int, list[pl.DataFrame]] = {}
    for record in records:
        kind, number, data = record["kind"], record["number"], record["data"]
        if kind == "observed":
            epoch.rows += number
            seen = json.loads(data)
            for partition, (newest, mark) in seen["partitions"].items():
                before = partitions.get(int(partition), Seen(newest, mark))
                marks = [m for m in (before.mark, mark) if m is not None]
                partitions[int(partition)] = Seen(max(before.newest, newest), max(marks, default=None))
            for bucket, count in seen["lateness"].items():
                lateness[int(bucket)] = lateness.get(int(bucket), 0) + count
        elif kind == "base":
            bases.setdefault(number, []).append(unpack(data))
        elif kind == "own":
            own.setdefault(number, []).append(unpack(data))
        elif kind == "suspect":
            epoch.suspects.append(unpack(data))
        else:
            epoch.refused.setdefault(kind, []).append(unpack(data))
    epoch.observed = Observation(partitions, lateness)
    count = max((len(frames) for frames in (*bases.values(), *own.values())), default=0)
    for i in range(count):
        epoch.batches.append(
            Batch(
                [bases[n][i] for n in sorted(bases)], {n: Reduced(frames[i]) for n, frames in own.items()}, {}
            )
        )
    return epoch
