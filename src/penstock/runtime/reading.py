"""What a run reads: groups of streams with their engines, a query for each stream, and ticks."""

from __future__ import annotations

import threading
import time as clock_time
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta

from penstock.history.events.event_history import EventHistory
from penstock.model.stream import Flow, Stream
from penstock.model.time import END, SECOND, duration, positive
from penstock.model.view import View
from penstock.runtime.commit.shards import Shards
from penstock.runtime.derived.commit_feed import CommitFeed
from penstock.runtime.engine import Engine
from penstock.runtime.groups import Groups
from penstock.runtime.queries.admission import Bounds
from penstock.runtime.queries.epoch_loop import EpochLoop
from penstock.runtime.queries.launch import QueryLauncher
from penstock.runtime.queries.lifecycle import Lifecycle
from penstock.runtime.queries.queries import Queries
from penstock.runtime.queries.supervisor import QuerySupervisor
from penstock.runtime.queries.ticker import Ticker
from penstock.runtime.spark.executors import ExecutorWatch
from penstock.runtime.tables.sort import TableSizes as TableSizes
from penstock.runtime.tables.tables import Tables
from penstock.runtime.workspace import Workspace


class Reading:
    """Reads streams until it is stopped. `tick` and `refresh` are seconds between ticks, and looks at tables.

    `every` is how often Spark begins an epoch at most, `target` how long an epoch may take.
    """

    def __init__(
        self,
        workspace: Workspace,
        history: EventHistory,
        streams: Mapping[str, Stream],
        views: Mapping[str, View],
        flows: Mapping[str, Flow],
        lifecycle: Lifecycle,
        *,
        tick: float,
        every: str,
        target: str | timedelta | None,
        bounds: Sequence[Bounds],
        shards: Shards,
        sizes: TableSizes,
        refresh: float = 0.5,
    ) -> None:
        self._workspace, self._history, self._lifecycle, self._feed = workspace, history, lifecycle, CommitFeed()
        store, self._refresh = workspace.store, refresh
        self.tables = Tables(
            lambda: workspace.spark, workspace.directory / "tables", lifecycle.clock, store.query, sizes
        )
        self._shards = shards
        history.keep(streams)
        self.groups = Groups(streams, views, flows, self._engine)
        history.read_through = self.groups.read_through
        self._loop = EpochLoop(self.groups, store, lifecycle)
        launch = QueryLauncher(workspace.app, workspace.spark, history.place, every, self._loop.take)
        # One that takes less than fits into the time between two epochs falls behind.
        seconds = None if target is None else max(positive(target, "a target"), duration(every)) / SECOND
        self.queries = Queries(workspace, self.groups, launch, self._feed, seconds, bounds)
        lifecycle.on_commit(self._feed.committed)
        self._supervisor = QuerySupervisor(self.queries, self.groups, store, lifecycle)
        self._ticker = Ticker(self.groups, store, lifecycle, tick)
        self._executors = ExecutorWatch(workspace.spark, lifecycle.fail)
        self._refresher = threading.Thread(target=self._read_tables, name="penstock-tables", daemon=True)

    def _engine(self, streams: Mapping[str, Stream], flows: Mapping[str, Flow]) -> Engine:
        """The engine of a group."""
        return Engine(
            streams, self._workspace.store, self._lifecycle.clock(), lambda name: self.queries.is_caught_up(name),
            flows=flows, session=lambda: self._workspace.spark, history=self._history, tables=self.tables,
            shards=self._shards,
        )  # fmt: skip

    @property
    def missing(self) -> str | None:
        """What the run waits for at the moment: executors of a cluster."""
        return self._executors.missing

    @property
    def drained(self) -> list[str]:
        """The streams whose input has ended."""
        trackers = [tracker for group in self.groups.all for tracker in group.engine.registry.trackers.items()]
        return [name for name, tracker in trackers if tracker.watermark >= END]

    # start and stop

    def follow(self) -> None:
        """Starts the queries. New operators read the past of their inputs first."""
        for group in self.groups.all:
            with group.lock:
                group.engine.begin_operators(self._lifecycle.clock())
        for name in self.groups.streams:
            self.queries.follow(name)

    def start(self) -> None:
        """Starts to watch the queries, and lets time pass."""
        self._ticker.start()
        self._supervisor.start()
        self._refresher.start()
        self._executors.start()

    def finish(self) -> None:
        """Waits for the epochs that run. The run is stopping: from here on none begins, and no query starts again."""
        self._loop.wait_until_idle()
        self._supervisor.join()

    def stop(self) -> None:
        """Stops the queries and all threads."""
        self.queries.stop()
        self._feed.close()
        self._ticker.join()
        if self._refresher.is_alive():
            self._refresher.join()
        self.tables.close()
        self._executors.close()

    def _read_tables(self) -> None:
        while not self._lifecycle.stopping.wait(self._refresh):
            self.tables.refresh()

    # wait

    def check(self) -> None:
        """Raises what has ended the run."""
        self._supervisor.judge()
        if self._lifecycle.failure is not None:
            raise self._lifecycle.failure

    def wait(self, seconds: float | None, check: Callable[[], None]) -> None:
        """Waits for `seconds`, or until `check` raises."""
        end = None if seconds is None else clock_time.monotonic() + seconds
        stopping = self._lifecycle.stopping
        while not stopping.is_set() and (end is None or clock_time.monotonic() < end):
            check()
            stopping.wait(0.2 if end is None else min(0.2, max(0.0, end - clock_time.monotonic())))
        check()

    def catch_up(self, check: Callable[[], None]) -> None:
        """Waits until all that the sources hold now is committed, or `check` raises."""
        for query in self.queries:
            while self.queries.get(query.name) is query and (running := query.query) is not None:
                try:
                    running.processAllAvailable()
                    if query.query is running and not query.is_held:
                        break
                except Exception:
                    check()
                    if self._lifecycle.stopping.is_set():
                        raise
                if self._lifecycle.stopping.wait(0.05):  # else it is started again
                    break
        check()

    def drain(self, catch_up: Callable[[], None]) -> None:
        """Moves the watermarks of all streams to the end of time, stage by stage, and catches up after each."""
        for stage in self.groups.stages:
            for group in {self.groups.of(name) for name in stage}:
                own = [name for name in stage if self.groups.of(name) is group]
                with self.groups.turn(own) as engine:
                    self._workspace.store.check_owner()
                    fixed = {name: END for name in own if name in engine.registry.trackers}
                    if fixed and engine.tick(self._lifecycle.clock(), fixed) is not None:
                        self._lifecycle.tell_committed()
            catch_up()
