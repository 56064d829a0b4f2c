"""A running app: one Structured Streaming query a stream, epochs and ticks one after the other, each one commit.

The commit protocol: Spark writes an epoch's offsets to its log before it calls us, and marks it done after we return.
In between the epoch's deltas, panes, refusals, watermarks and offsets go into the store in one transaction. An epoch
that the store has already is skipped; a store that lacks epochs which Spark has done refuses to run.
"""

from __future__ import annotations

import json
import shutil
import threading
import time as clock_time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.engine.changing import Changing, is_replayable, reads_kafka
from penstock.engine.core import Engine, Source
from penstock.engine.errors import RunError, failed
from penstock.engine.needs import needed
from penstock.engine.session import spark_session
from penstock.logs import Follower, Log
from penstock.model.rows import Rows
from penstock.model.stream import Flow, Stream
from penstock.model.time import Instant
from penstock.model.view import View
from penstock.savepoints import Savepoint, check_whole, create
from penstock.sinks import Delivery, Sink
from penstock.store import Keep, SqliteStore

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


class _Stopping(Exception):
    """An epoch began when the run, or its stream's query, was stopping."""


def wall_clock() -> Instant:
    return clock_time.time_ns() // 1000


class Run(Changing):
    """Runs an app in a directory. `tick` is how often time passes without events; `clock` can be set for tests.

    `kafka` makes Spark able to read streams from Kafka that come later. `resting` views take no events.
    """

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
        keep: Keep = Keep(),  # noqa: B008
        sinks: Mapping[str, tuple[str, View | Flow, Sink]] | None = None,
        kafka: bool = False,
        resting: Collection[str] = (),
    ) -> None:
        self.name, self.directory = name, directory
        self._clock, self._tick, self._every = clock, tick, epoch_every
        self._mutex = threading.RLock()
        self._stopping = threading.Event()
        self._queries: dict[str, StreamingQuery] = {}
        self._followers: dict[str, Follower] = {}
        self._columns: dict[str, tuple[str, ...]] = {}
        self._restarting: set[str] = set()  # streams whose plan lacks a column that a new view needs
        self._waiting: set[str] = set()  # streams whose queries have read all there is
        self._failure: BaseException | None = None
        check_whole(directory)
        self.store = SqliteStore.open(directory, keep)
        self.store.lock()
        try:
            self._spark = spark or spark_session(name, master=master, kafka=kafka or reads_kafka(streams))
            # A process killed while Spark wrote its first offsets leaves a half-written file behind, with which Spark
            # would refuse to start. Whether a checkpoint and the store belong together is checked here, each epoch.
            self._spark.conf.set("spark.sql.streaming.verifyCheckpointDirectoryEmptyOnStart", "false")
            flows = {of: flow for of, flow, _ in (sinks or {}).values() if isinstance(flow, Flow)}
            self.engine = Engine(
                streams, self.store, clock(), self.is_caught_up, flows=flows, session=lambda: self._spark
            )
            self.engine.keep(views)
            self._clear_leftovers()
            self._check_checkpoints()
            self.delivery = Delivery(
                self.store,
                {sink: (of, self._delivered_as(of, what), to) for sink, (of, what, to) in (sinks or {}).items()},
                commit_position=self._delivered,
                trim=self._trim_outbox,
                app=name,
            )
            for view in resting:
                self.engine.rest(view)
        except BaseException:
            self.store.close()  # gives the lock back
            raise
        self._committed = threading.Event()
        self._ticker = threading.Thread(target=self._tick_on, name="penstock-ticks", daemon=True)
        self._deliverer = threading.Thread(target=self._deliver_on, name="penstock-delivery", daemon=True)

    def _delivered_as(self, name: str, what: View | Flow) -> View | Rows:
        """A view or a flow as sinks take it: with the types that Spark has told."""
        if isinstance(what, Flow):
            return Rows.of(what, self.engine.lowered.outputs[name].schema)
        return self.engine.views[name].plan.view

    def _clear_leftovers(self) -> None:
        """A process that died while it dropped a stream may have left its checkpoint."""
        for name in self.store.leftovers():
            shutil.rmtree(self._checkpoint(name), ignore_errors=True)
            self.store.forgotten(name)

    def _check_checkpoints(self) -> None:
        """A store that knows a stream whose checkpoint is gone would count its events again.

        A log that cannot be read again has no use for its old offsets: its query begins anew.
        """
        for name, stream in self.engine.streams.items():
            if not is_replayable(stream):
                shutil.rmtree(self._checkpoint(name), ignore_errors=True)
                continue
            if f"{name}.events" in self.store.counters() and not self._checkpoint(name).exists():
                raise RunError(
                    f"the checkpoint of the stream «{name}» is gone: reading it again would count its events twice",
                    hint=f"restore {self._checkpoint(name)}, or delete {self.directory} to start from the beginning",
                )

    def _checkpoint(self, name: str) -> Path:
        return self.directory / "checkpoints" / name

    # savepoints

    def savepoint(self, name: str, to: Path | None = None) -> Savepoint:
        """Takes a consistent cut of store, offsets and definitions, here or at a path. Epochs go on meanwhile."""
        return create(self.directory, name, to=to, app=self.name)

    # queries

    def start(self) -> Run:
        """Starts reading."""
        try:
            for name in self.engine.streams:
                self._follow(name)
        except BaseException:
            self.stop()
            raise
        self._ticker.start()
        self._deliverer.start()
        return self

    def _needed(self, name: str) -> tuple[str, ...]:
        if not is_replayable(self.engine.streams[name]):
            return self.engine.streams[name].schema.names  # a restart for one more column would lose events
        return needed(self.engine.streams[name], self.engine.lowered)

    def _start_query(self, name: str) -> None:
        stream = self.engine.streams[name]
        log = stream.log
        assert isinstance(log, Log)
        columns = self._columns[name] = self._needed(name)
        self._waiting.discard(name)
        checkpoint = self._checkpoint(name)

        def epoch(rows: DataFrame, number: int) -> None:
            self._epoch(name, columns, checkpoint, rows, number)

        frame = log.read(self._spark, stream.schema, columns)
        self._queries[name] = (
            frame.writeStream.queryName(f"{self.name}-{name}")
            .foreachBatch(epoch)
            .option("checkpointLocation", str(checkpoint))
            .trigger(processingTime=self._every)
            .start()
        )

    def stop(self) -> None:
        """Stops at an epoch boundary."""
        self._stopping.set()
        with self._mutex:
            pass  # the epoch that runs is committed; from here on none begins
        for query in self._queries.values():  # without the mutex: Spark waits for an epoch that it has just called
            query.stop()
        self._committed.set()
        for thread in (self._ticker, self._deliverer):
            if thread.is_alive() and threading.current_thread() is not thread:
                thread.join()
        self.delivery.drain()
        self.delivery.close()
        for follower in self._followers.values():
            follower.close()
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
        for query in list(self._queries.values()):
            try:
                query.processAllAvailable()
            except Exception:
                self._raise_failure()
                raise
        self._raise_failure()

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure
        for name, query in list(self._queries.items()):
            error = query.exception()
            # One that is restarted or dropped fails in the epoch that it had just begun.
            if error is not None and name not in self._restarting and self._queries.get(name) is query:
                raise RunError(f"the stream «{name}» has failed", detail=str(error)[:2000])

    def progress(self, name: str) -> list[dict[str, Any]]:
        """What Spark tells of a stream's last epochs: rows, offsets, and how long its parts took."""
        return [json.loads(told.json) for told in self._queries[name].recentProgress]

    def is_caught_up(self, name: str) -> bool:
        """Whether a stream's query has read all that its log has.

        Spark says so only between two looks at the log; what it said holds until the next epoch. A query that is
        starting has not looked yet.
        """
        query = self._queries.get(name)
        if query is None:
            return False
        status: dict[str, Any] = query.status
        if status["isDataAvailable"]:
            self._waiting.discard(name)
        elif "Waiting" in status["message"]:
            self._waiting.add(name)
        return name in self._waiting

    # epochs and ticks

    def _epoch(self, name: str, columns: tuple[str, ...], checkpoint: Path, rows: DataFrame, number: int) -> None:
        try:
            with self._mutex:
                if self._stopping.is_set() or name in self._restarting:
                    raise _Stopping
                self._waiting.discard(name)
                query = json.loads((checkpoint / "metadata").read_text())["id"]
                offsets = "\n".join((checkpoint / "offsets" / str(number)).read_text().splitlines()[2:])
                self._know_partitions(name, offsets)
                if not self._is_done(name, query, number, offsets):
                    self.engine.epoch(name, columns, rows, Source(query, number, offsets), self._clock())
                    self._committed.set()
                self._followers[name].committed(offsets)
        except _Stopping:
            raise  # not committed: Spark reads it again at the next start
        except BaseException as error:
            self._failure = self._failure or failed(name, error)
            raise

    def _know_partitions(self, name: str, offsets: str) -> None:
        """A partition that shows nothing yet holds time back until it is idle: so the tracker must know of it."""
        found, tracker = self._followers[name].reading(offsets), self.engine.trackers.get(name)
        if found is not None and tracker is not None:
            tracker.know(*found, self._clock())

    def _is_done(self, name: str, query: str, number: int, offsets: str) -> bool:
        """Whether the store has this epoch already; refuses a store that is behind, or that knows another one."""
        progress = self.store.progress(query)
        last = -1 if progress is None else progress.epoch
        if number > last + 1:
            raise RunError(
                f"the store is behind Spark's log of the stream «{name}»: it has epoch {last}, Spark is at {number}",
                hint=f"restore the store, or read the stream again from its start: delete {self.directory}",
            )
        if number == last and progress is not None and progress.offsets != offsets:
            raise RunError(
                f"epoch {number} of the stream «{name}» was committed with other offsets",
                detail=f"{progress.offsets} and {offsets}",
                hint="the store and the checkpoint do not belong together: restore both, or delete both",
            )
        return number <= last

    def _tick_on(self) -> None:
        while not self._stopping.wait(self._tick):
            try:
                with self._mutex:
                    if not self._stopping.is_set() and self.engine.tick(self._clock()) is not None:
                        self._committed.set()
            except BaseException as error:
                self._failure = self._failure or error
                return

    # delivery

    def _deliver_on(self) -> None:
        """Delivers after commits, and now and then: a sink that failed may be due again."""
        while not self._stopping.is_set():
            self._committed.wait(1.0)
            self._committed.clear()
            try:
                self.delivery.deliver()
            except BaseException as error:
                self._failure = self._failure or error
                return

    def _delivered(self, sink: str, position: int) -> None:
        with self._mutex:
            self.store.delivered(sink, position)

    def _trim_outbox(self, through: int) -> None:
        with self._mutex:
            self.store.trim_outbox(through)
