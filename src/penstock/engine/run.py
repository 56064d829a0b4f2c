"""A running app: one Structured Streaming query a stream, epochs and ticks one after the other, each one commit.

The commit protocol: Spark writes an epoch's offsets to its log before it calls us, and marks it done after we return.
In between the epoch's deltas, panes, refusals, watermarks and offsets go into the store in one transaction. An epoch
that the store has already is skipped; a store that lacks epochs which Spark has done refuses to run.
"""

from __future__ import annotations

import json
import logging
import shutil
import threading
import time as clock_time
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from penstock.engine.changing import is_replayable, reads_kafka
from penstock.engine.clock import Steady
from penstock.engine.commits_desk import DESK
from penstock.engine.core import Engine
from penstock.engine.dead import Retried, retry
from penstock.engine.derived import derived, in_stages
from penstock.engine.epochs import EpochsLog, is_told
from penstock.engine.epochs_following import Followers, following, own, wait_for
from penstock.engine.errors import RunError
from penstock.engine.executors import ExecutorWatch
from penstock.engine.join_log import JoinLog
from penstock.engine.keeper import Keeper
from penstock.engine.learn_log import LearnLog
from penstock.engine.needs import needed
from penstock.engine.pace import Pace, last_notes
from penstock.engine.process_log import ProcessLog
from penstock.engine.process_state import state_of
from penstock.engine.reach import check_reach
from penstock.engine.realtime import Lanes, is_lane
from penstock.engine.session import spark_session
from penstock.engine.standby import mended, taken
from penstock.engine.swapping import Swapping
from penstock.engine.tables import Tables
from penstock.engine.turns import Turns
from penstock.engine.undo import taken_back
from penstock.errors import unknown
from penstock.lake.compact import Rules
from penstock.lake.erase import erase
from penstock.lake.master import Master
from penstock.learning.stored import Stored, load
from penstock.logs import Follower, Log
from penstock.model.rows import Rows
from penstock.model.stream import Flow, Stream
from penstock.model.time import END, SECOND, Instant, duration, not_negative, positive
from penstock.model.view import View
from penstock.private import protect
from penstock.savepoints import Savepoint, create
from penstock.sinks import Delivery, Sink
from penstock.store import Keep, SqlStore, Standby, StoreError
from penstock.store.base import Gone
from penstock.store.checkpoints import FOLDER as CHECKPOINTS
from penstock.store.checkpoints import Place, remember
from penstock.store.checkpoints import checkpoints as places
from penstock.store.file import Tombstone

if TYPE_CHECKING:
    import polars as pl
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


_OUTBOX: Final = "the outbox"
#: So many seconds pass between two looks at what tables are due.
_TABLES: Final = 0.5
#: A folder that Spark is making is removed in so many attempts at most.
_ATTEMPTS: Final = 20


_log = logging.getLogger("penstock.engine")


class Companion(Protocol):
    """What goes on beside the epochs of a run: it begins when the run reads, and ends before the run does."""

    def begin(self) -> None: ...
    def end(self) -> None: ...
    def ready(self) -> None:
        """Waits until it has done what it began with."""


class Run(Turns, Swapping):
    """Runs an app in a directory. `tick` is how often time passes without events; `clock` can be set for tests.

    `kafka` makes Spark able to read streams from Kafka that come later. `resting` views take no events. `master_at` is
    where the master lies, a directory or a URL; without it, in the app's directory. Its files that compaction has
    replaced stay for a `grace`, for those who read them still. `patience`: for how many seconds a
    stream is tried again whose broker is away, or while the store is locked or full. `target`: how long an epoch may
    take. It takes so much (`penstock.engine.admission`) where its log does not say how much; without it, all there is.

    On a cluster: `conf` are settings of Spark's, `executor_python` the Python of the executors, `code` folders whose
    modules they get, `checkpoints` a path or URL for Spark's checkpoints. A `standby` waits for the store until the
    process that has it ends or hangs. `store` is the URL of one in PostgreSQL, postgresql://user@host/database, or one
    that this process has locked already; without it, the store lies in the app's directory. `companion` goes on beside.
    Only its owner can read that directory, and the members of a `group`.
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
        clock: Callable[[], Instant] | None = None,
        keep: Keep = Keep(),  # noqa: B008
        sinks: Mapping[str, tuple[str, View | Flow, Sink]] | None = None,
        kafka: bool = False,
        resting: Collection[str] = (),
        patience: float = 3600.0,
        master_at: str | Path | None = None,
        grace: str | timedelta = "10 minutes",
        target: str | timedelta | None = "2 seconds",
        conf: Mapping[str, str] | None = None,
        executor_python: str | None = None,
        code: Sequence[Path] = (),
        checkpoints: str | Path | None = None,
        standby: bool | Standby = False,
        store: SqlStore | str | None = None,
        companion: Companion | None = None,
        group: str | None = None,
    ) -> None:
        super().__init__(patience)
        self._companion = companion
        self.name, self.directory = name, directory
        if (note := protect(directory, group)) is not None:
            _log.warning("%s", note)
        self._clock, self._tick, self._every = clock or Steady(), tick, epoch_every
        self._mutex, self._planning = threading.RLock(), threading.Lock()
        self._idle, self._busy = threading.Condition(self._mutex), set[str]()
        # Spark begins an epoch at most each `epoch_every`: one that takes less than fits in there falls behind.
        self._target = None if target is None else max(positive(target, "a target"), duration(epoch_every)) / SECOND
        self._paces: dict[str, Pace] = {}
        self._stopping = threading.Event()
        self._queries: dict[str, StreamingQuery] = {}
        self._followers: dict[str, Follower] = {}
        self._columns: dict[str, tuple[str, ...]] = {}
        self._restarting: set[str] = set()  # streams whose plan lacks a column that a new view needs
        self._waiting: set[str] = set()  # streams whose queries have read all there is
        self._failure: BaseException | None = None
        self._reached: set[str] = set()  # directories that the executors are known to share
        self.store = store if isinstance(store, SqlStore) else taken(directory, keep, standby, store, name)
        self._checkpoints = places(directory, checkpoints)
        self._begin_time()
        try:
            self._spark = spark or spark_session(
                name, master=master, kafka=kafka or reads_kafka(streams), options=conf,
                executor_python=executor_python, code=code,
            )  # fmt: skip
            # A process killed while Spark wrote its first offsets leaves a half-written file behind, with which Spark
            # would refuse to start. Whether a checkpoint and the store belong together is checked here, each epoch.
            self._spark.conf.set("spark.sql.streaming.verifyCheckpointDirectoryEmptyOnStart", "false")
            lanes = {sink: given for sink, given in (sinks or {}).items() if is_lane(given[2])}
            sinks = {sink: given for sink, given in (sinks or {}).items() if sink not in lanes}
            flows = {of: flow for of, flow, _ in sinks.values() if isinstance(flow, Flow)}
            self.engine = Engine(
                streams, self.store, self._clock(), self.is_caught_up, flows=flows, session=lambda: self._spark,
                master=Master(self.store, None if master_at is None else str(master_at)),
                tables=Tables(lambda: self._spark, directory / "tables", self._clock, self.store.query),
            )  # fmt: skip
            assert self.engine.master is not None
            rules = Rules(grace=not_negative(grace, "the grace of replaced files"))
            self.keeper = Keeper(self.engine.master, self._clock, rules)
            self.engine.keep(views)
            self.begin_generations()
            self._clear_leftovers()
            self._check_checkpoints()
            remember(directory, self._checkpoints)
            self.delivery = Delivery(
                self.store,
                {sink: (of, self._delivered_as(of, what), to) for sink, (of, what, to) in sinks.items()},
                commit_position=self._delivered,
                trim=self._trim_outbox,
                app=name,
                check_owner=self.store.check_owner,
                takes_over=self.store.took_over,
            )
            self.lanes = Lanes(self._spark, name, directory, lanes)
            for view in resting:
                self.engine.rest(view)
        except BaseException:
            self.store.close()  # gives the lock back
            raise
        self._committed = threading.Event()
        self._ticker = threading.Thread(target=self._tick_on, name="penstock-ticks", daemon=True)
        self._executors = ExecutorWatch(self._spark, self._executor_lost)
        self._deliverer = threading.Thread(target=self._deliver_on, name="penstock-delivery", daemon=True)
        self._reader = threading.Thread(target=self._read_tables_on, name="penstock-tables", daemon=True)

    def _delivered_as(self, name: str, what: View | Flow) -> View | Rows:
        """A view or a flow as sinks take it: with the types that Spark has told."""
        if isinstance(what, Flow):
            return Rows.of(what, self.engine.lowered.outputs[name].schema)
        return self.engine.views[name].plan.view

    def _clear_leftovers(self) -> None:
        """A process that died while it dropped a stream may have left its checkpoint."""
        for name in self.store.leftovers():
            self._checkpoint(name).remove()
            self.store.forgotten(name)

    def _check_checkpoints(self) -> None:
        """A store that knows a stream whose checkpoint is gone would count its events again.

        A log that cannot be read again has no use for its old offsets: its query begins anew.
        """
        for name, stream in self.engine.streams.items():
            if not is_replayable(stream):
                self._checkpoint(name).remove()
                continue
            if f"{name}.events" in self.store.counters() and not self._checkpoint(name).exists():
                raise RunError(
                    f"the checkpoint of the stream «{name}» is gone: reading it again would count its events twice",
                    hint=f"restore {self._checkpoint(name)}, or delete {self.directory} to start from the beginning",
                )
            mended(name, self._checkpoint(name), self.store)

    def _checkpoint(self, name: str) -> Place:
        return self._checkpoints / name

    # savepoints

    def savepoint(self, name: str, to: Path | None = None) -> Savepoint:
        """Takes a consistent cut of store, offsets and definitions, here or at a path. Epochs go on meanwhile."""
        return create(self.directory, name, to=to, app=self.name)

    # the master

    def erase(self, stream: str, condition: str, reason: str | None = None) -> Tombstone:
        """Erases the events of a stream so far for which a condition holds: batch leaves them out from here on."""
        with self._mutex:
            return erase(self.store, stream, condition, reason, self._clock())

    def retry_dead_letters(self, stream: str, where: str | None = None) -> Retried:
        """Feeds dead letters of a stream in again: those for which a condition holds, or all."""
        with self._mutex:
            found = retry(self.engine, self._spark, stream, where, self._clock)
            self._tell_committed()
            return found

    # processors

    def processor_state(self, stream: str) -> pl.DataFrame:
        """What each key of the processor behind a stream has now: its states and timers, as of its last epoch."""
        if stream not in self.engine.streams:
            raise unknown("stream", stream, self.engine.streams)
        log = derived(self.engine.streams[stream])
        if not isinstance(log, ProcessLog):
            raise RunError(f"the stream «{stream}» is not what a processor gives", hint="make it with app.process(…)")
        return state_of(self._spark, self._checkpoint(stream), log.process, self._clock())

    # models

    def model(self, stream: str, version: int | None = None) -> Stored:
        """The model behind a stream: as it is whenever it is asked, or one of the versions that are kept."""
        if stream not in self.engine.streams:
            raise unknown("stream", stream, self.engine.streams)
        log = derived(self.engine.streams[stream])
        if not isinstance(log, LearnLog):
            raise RunError(f"the stream «{stream}» is not what a model predicts", hint="make it with app.learn(…)")
        return load(self.directory, stream, version, learning=log.learning)

    # epochs that are over

    def wait_for_epoch(self, name: str, number: int, seconds: float = 60.0) -> None:
        """Waits until the stream of this name, which `app.on_epoch` made, has told of an epoch."""
        if not isinstance(self.engine.streams[name].log, EpochsLog):
            raise RunError(f"the stream «{name}» tells of no epochs", hint="make it with app.on_epoch(…)")
        wait_for(
            lambda: is_told(self.store, name, number), seconds, f"the epoch {number} of «{name}» is not over", self.wait
        )

    def wait_through(self, stream: str, commit: int, seconds: float = 60.0) -> None:
        """Waits until all that is made from a stream has read its commits up to one, and is committed too."""
        behind = following(self.engine.streams, self.engine.streams[stream], EpochsLog)
        last = own(self.store, stream, commit)
        wait_for(
            lambda: Followers(self.store, last, behind).done(stream, last) is not None,
            seconds, f"not all that is made from «{stream}» has read the commit {last}", self.wait,
        )  # fmt: skip

    # queries

    def start(self) -> Run:
        """Starts reading."""
        try:
            self.keeper.start()
            for name in self.engine.streams:
                self._follow(name)
            self.lanes.start()
        except BaseException:
            self.stop()
            raise
        for thread in (self._ticker, self._deliverer, self._watcher, self._reader):
            thread.start()
        self._executors.start()
        if self._companion is not None:
            try:
                self._companion.begin()
            except BaseException:
                self.stop()
                raise
        return self

    def _executor_lost(self, error: BaseException) -> None:
        self._failure = self._failure or error

    def _needed(self, name: str) -> tuple[str, ...]:
        if not is_replayable(self.engine.streams[name]):
            return self.engine.streams[name].schema.names  # a restart for one more column would lose events
        if self.engine.streams[name].kept != "none":
            return self.engine.streams[name].schema.names  # the master keeps them all
        return needed(self.engine.streams[name], self.engine.lowered)

    def _log(self, name: str) -> Log:
        """A stream's log, as it is read in this directory."""
        stream = self.engine.streams[name]
        assert isinstance(stream.log, Log)
        return stream.log.placed(self.directory, name, stream.schema)

    def _start_query(self, name: str) -> None:
        stream = self.engine.streams[name]
        columns = self._columns[name] = self._needed(name)
        self._waiting.discard(name)
        self._check_reach(name)
        checkpoint = self._checkpoint(name)

        def epoch(rows: DataFrame, number: int) -> None:
            self._epoch(name, columns, checkpoint, rows, number)

        if name not in self._paces:
            self._paces[name] = Pace(name, self._log(name), self._target, last_notes(self.store).get(name))
        frame = self._paces[name].log.read(self._spark, stream.schema, columns)
        self._queries[name] = (
            frame.writeStream.queryName(f"{self.name}-{name}")
            .foreachBatch(epoch)
            .option("checkpointLocation", checkpoint.told)
            .trigger(processingTime=self._every)
            .start()
        )

    def _check_reach(self, name: str) -> None:
        """On a cluster executors write the history, and the state of joins and processors: each place is tried once."""
        stream, tried = self.engine.streams[name], self._reached
        assert self.engine.master is not None
        history = self.engine.master.place
        if stream.kept != "none" and history.is_local and history.location not in tried:
            check_reach(
                self._spark, Path(history.location), "they write the history of events there",
                "keep it where all of them can write (app.run(master_at=…)), or say keep = none for the streams",
            )  # fmt: skip
            tried.add(history.location)
        local = self._checkpoints.local
        if local is not None and str(local) not in tried and isinstance(derived(stream), JoinLog | ProcessLog):
            check_reach(
                self._spark, local, f"the state of '{name}' is kept there",
                "put checkpoints where all of them can write: --checkpoints hdfs://… or a directory that is mounted "
                "everywhere",
            )  # fmt: skip
            tried.add(str(local))

    def stop(self) -> None:
        """Stops at an epoch boundary."""
        if self._companion is not None:
            self._companion.end()
        self._stopping.set()
        self.keeper.stop()
        with self._idle:
            self._idle.wait_for(lambda: not self._busy)  # the epochs that run are committed; from here on none begins
        if self._watcher.is_alive():
            self._watcher.join()  # and no query is started again
        self.lanes.stop()
        for query in self._queries.values():  # without the mutex: Spark waits for an epoch that it has just called
            query.stop()
        DESK.close(str(self.directory.absolute()))
        self._committed.set()
        for thread in (self._ticker, self._deliverer, self._reader):
            if thread.is_alive() and threading.current_thread() is not thread:
                thread.join()
        self._executors.close()
        try:
            self.delivery.drain()
        except StoreError:
            if self._failure is None:  # else that is why we stop
                raise
        finally:
            self.delivery.close()
            for follower in self._followers.values():
                follower.close()
            gone = self._is_gone()
            self.store.close()
            if gone:
                self._leave_nothing()

    def _is_gone(self) -> bool:
        """Whether the store is no longer where it was."""
        try:
            self.store.check_place()
        except Gone:
            return True
        except StoreError:  # it was never opened to write
            return False
        return False

    def _leave_nothing(self) -> None:
        """Removes the folder that Spark has made for its logs where the directory was moved away.

        A thread of Spark's may still be making it, so that an attempt can leave an empty folder.
        """
        for _ in range(_ATTEMPTS):
            try:
                names = {file.name for file in self.directory.iterdir()}
            except FileNotFoundError:
                return
            if names - {CHECKPOINTS}:
                return
            shutil.rmtree(self.directory, ignore_errors=True)

    def wait(self, seconds: float | None = None) -> None:
        """Waits so long, or until a query fails."""
        end = None if seconds is None else clock_time.monotonic() + seconds
        while not self._stopping.is_set() and (end is None or clock_time.monotonic() < end):
            self._raise_failure()
            left = 0.2 if end is None else min(0.2, max(0.0, end - clock_time.monotonic()))
            self._stopping.wait(left)
        self._raise_failure()

    def catch_up(self) -> None:
        """Waits until all that the logs hold now is committed, and new views have their history."""
        if self._companion is not None:
            self._companion.ready()
        for name in list(self._queries):
            while (query := self._queries.get(name)) is not None:
                try:
                    query.processAllAvailable()
                    if self._queries.get(name) is query and name not in self._restarting:
                        break
                except Exception:
                    self._raise_failure()
                    if self._stopping.is_set():
                        raise
                if self._stopping.wait(0.05):  # else it is started again
                    break
        self._raise_failure()

    def drain(self) -> None:
        """All input has ended: what the logs hold is read, and then every window that ends in event time is closed.

        The watermark of each stream goes to the end of time, first of those with a log of their own, then of those that
        are made from them: so timers fire and joins give what found no partner before the views above are closed.
        It stays there: what a stream brings in a later run is late for these views.
        """
        self.catch_up()
        for names in in_stages(self.engine.streams):
            with self._mutex:
                self.store.check_owner()
                fixed = {name: END for name in names if name in self.engine.trackers}
                with taken_back(self.engine):
                    if fixed and self.engine.tick(self._clock(), fixed) is not None:
                        self._tell_committed()
            self.catch_up()

    @property
    def drained(self) -> list[str]:
        """The streams whose input has ended."""
        return [name for name, tracker in self.engine.trackers.items() if tracker.watermark >= END]

    @property
    def failure(self) -> BaseException | None:
        """Why the run has ended by itself, if it has."""
        return self._failure

    @property
    def missing(self) -> str | None:
        """What the run has to wait for at the moment: executors of a cluster."""
        return self._executors.missing

    def _raise_failure(self) -> None:
        self._judge()
        if self._failure is not None:
            raise self._failure
        self.lanes.check()

    def progress(self, name: str) -> list[dict[str, Any]]:
        """What Spark tells of a stream's last epochs: rows, offsets, and how long its parts took."""
        return [json.loads(told.json) for told in self._queries[name].recentProgress]

    def is_caught_up(self, name: str) -> bool:
        """Whether a stream's query has read all that its log has.

        Spark says so only between two looks at the log; what it said holds until the next epoch. A query that is
        starting has not looked yet.
        """
        query = self._queries.get(name)
        log = derived(self.engine.streams[name])
        if query is None or (log is not None and not all(self.is_caught_up(one.name) for one in log.inputs)):
            return False
        status: dict[str, Any] = query.status
        if status["isDataAvailable"]:
            self._waiting.discard(name)
        elif "Waiting" in status["message"]:
            self._waiting.add(name)
        return name in self._waiting

    # tables

    def _read_tables_on(self) -> None:
        """Reads tables again as their rules say; what cannot be read is told by the commits."""
        while not self._stopping.wait(_TABLES):
            self.engine.tables.refresh()

    # delivery

    def _deliver_on(self) -> None:
        """Delivers after commits, and now and then: a sink that failed may be due again."""
        while not self._stopping.is_set():
            self._committed.wait(1.0)
            self._committed.clear()
            try:
                self.delivery.deliver()
                self._retries.gets_on(_OUTBOX)
            except BaseException as error:
                if not self._retries.failed(_OUTBOX, error):
                    self._failure = self._failure or error
                    return

    def _delivered(self, sink: str, position: int) -> None:
        with self._mutex:
            self.store.delivered(sink, position)

    def _trim_outbox(self, through: int) -> None:
        with self._mutex:
            self.store.trim_outbox(through)
