"""A running app: a Structured Streaming query for each stream, epochs and ticks in turns, each one commit."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from penstock.model.time import Instant, duration, in_seconds, show_duration
from penstock.runtime.commit.generations import Generations
from penstock.runtime.dead_letters import RetryCounts, letter_streams, retry
from penstock.runtime.derived.inspection import Inspection, Model, Parameters, RunView, run_html
from penstock.runtime.errors import RunError
from penstock.runtime.history import EventHistory, History
from penstock.runtime.large_state import LargeState, Placement
from penstock.runtime.outputs import Outputs, flows_of
from penstock.runtime.queries.admission import BOUNDS, Bounds
from penstock.runtime.queries.definitions import Definitions
from penstock.runtime.queries.lifecycle import Fault, Lifecycle, Phases, Retries
from penstock.runtime.reading import Reading, TableSizes
from penstock.runtime.workspace import SparkOptions, SparkStart, open_workspace
from penstock.store import Keep, SqlStore, Standby, Tombstone

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from penstock.history.savepoints import Savepoint
    from penstock.model.stream import Flow, Stream
    from penstock.model.view import View
    from penstock.runtime.commit.view_runtime import ViewRuntime
    from penstock.sinks import Sink


class Companion(Protocol):
    """What goes on beside the epochs of a run: it begins when the run reads, and ends before the run does."""

    def begin(self) -> None: ...
    def end(self) -> None: ...
    def ready(self) -> None:
        """Waits until it has done what it began with."""

    def ask(self, sql: str, parameters: Parameters) -> pa.Table:
        """The answer to a SELECT over the views, of one commit."""


class Run:
    """Runs an app in a directory. `tick` is how often time passes without events; `clock` can be set for tests.

    `kafka` makes Spark able to read streams from Kafka that come later. `resting` views take no events. `history_at` is
    where the history lies, a directory or a URL; without it, in the app's directory. Its files that compaction has
    replaced stay for a `grace`, for those who read them still. `patience`: for how many seconds a
    stream is tried again whose broker is away, or while the store is locked or full. `target`: how long an epoch may
    take. Admission estimates how much that is, where the source sets no limit; without a target an epoch takes all.

    On a cluster: `conf` are settings of Spark's, `executor_python` the Python of the executors, `code` folders whose
    modules they get, `checkpoints` a path or URL for Spark's checkpoints. A `standby` waits for the store until the
    process that has it ends or hangs. `store` is the URL of one in PostgreSQL, postgresql://user@host/database, or one
    that this process has locked already; without it, the store lies in the app's directory. `companion` goes on beside.
    Only its owner can read that directory, and the members of a `group`. `bounds` limit what admission may choose,
    `table_sizes` which tables every process gets whole. `status` names user code that blocks for `long_calls`
    seconds. `phases` gets the parts of the start. `spark` may be a session that is still being made.
    """

    def __init__(
        self,
        name: str,
        streams: Mapping[str, Stream],
        views: Mapping[str, View],
        directory: Path,
        *,
        spark: SparkSession | SparkStart | None = None,
        master: str = "local[*]",
        tick: float | str | timedelta = 0.5,
        epoch_every: str | timedelta = "0 seconds",
        clock: Callable[[], Instant] | None = None,
        keep: Keep = Keep(),  # noqa: B008
        sinks: Mapping[str, tuple[str, View | Flow, Sink]] | None = None,
        kafka: bool = False,
        resting: Collection[str] = (),
        patience: float | str | timedelta = 3600.0,
        history_at: str | Path | None = None,
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
        bounds: Sequence[Bounds] = BOUNDS,
        placements: Mapping[str, Placement] | None = None,
        table_sizes: TableSizes = TableSizes(),  # noqa: B008
        long_calls: float | str | timedelta = 10.0,
        phases: Phases | None = None,
    ) -> None:
        self._companion = companion
        self.name, self.directory = name, directory
        self.url: str | None = None  # where it is served, if it is
        self._is_started = self._is_stopped = False
        outlets = sinks or {}
        self._lifecycle = Lifecycle(clock, Retries(in_seconds(patience)), phases)
        self.workspace = open_workspace(
            name, directory, streams, SparkOptions(spark, master, kafka, conf, executor_python, code),
            store=store, keep=keep, standby=standby, checkpoints=checkpoints, group=group,
        )  # fmt: skip
        self.store = self.workspace.store
        try:
            self._lifecycle.begin(self.store)
            self._history = History(self.workspace, self._lifecycle, history_at, grace)
            self.large_state = LargeState(
                self.workspace, self._lifecycle, placements, long_calls=in_seconds(long_calls)
            )
            self._reading = Reading(
                self.workspace, self._history.events, streams, views, flows_of(outlets), self._lifecycle,
                tick=in_seconds(tick), every=show_duration(duration(epoch_every)), target=target, bounds=bounds,
                sizes=table_sizes, shards=self.large_state.shards,
            )  # fmt: skip
            self.groups, self.queries = self._reading.groups, self._reading.queries
            self.generations = Generations(self.workspace, self.groups, self.queries, self._lifecycle)
            self.generations.prepare()
            self.workspace.prepare(streams)
            self._outputs = Outputs(self.workspace, self.groups, self._lifecycle, outlets)
            self._definitions = Definitions(self.workspace, self.groups, self.queries, self._outputs, self._lifecycle)
            for view in resting:
                self.groups.rest(view)
        except BaseException:
            self.store.close()  # gives the lock back
            raise
        ask = None if companion is None else companion.ask
        self._inspection = Inspection(self.workspace, lambda: self.groups.streams, self.wait, ask)
        self.history, self.keeper, self.tables = self._history.events, self._history.keeper, self._reading.tables
        self.delivery, self.lanes = self._outputs.delivery, self._outputs.lanes

    # what runs

    @property
    def master(self) -> EventHistory:
        """What `history` was called before."""
        warnings.warn("run.master is called run.history now", DeprecationWarning, stacklevel=2)
        return self.history

    @property
    def spark(self) -> SparkSession:
        """The session of the app."""
        return self.workspace.spark

    @property
    def streams(self) -> Mapping[str, Stream]:
        """The streams by name."""
        return self.groups.streams

    @property
    def views(self) -> Mapping[str, ViewRuntime]:
        """The views that take events, by name."""
        return self.groups.views

    @property
    def drained(self) -> list[str]:
        """The streams whose input has ended."""
        return self._reading.drained

    @property
    def failure(self) -> BaseException | None:
        """Why the run has ended by itself, if it has."""
        return self._lifecycle.failure

    @property
    def faults(self) -> dict[str, Fault]:
        """What fails at the moment and is tried again, and why."""
        return self._lifecycle.retries.faults

    @property
    def phases(self) -> Phases:
        """The parts of the start, up to the first commit."""
        return self._lifecycle.phases

    @property
    def starting(self) -> str | None:
        """What the start waits for; None once something is committed, or there is nothing to read."""
        if self.phases.is_over or (self.phases.has_queries and all(one.ask_whether_waiting() for one in self.queries)):
            return None
        return self.phases.current

    @property
    def missing(self) -> str | None:
        """What the run waits for at the moment: executors of a cluster."""
        return self._reading.missing

    def now(self) -> Instant:
        """The run's clock."""
        return self._lifecycle.clock()

    def progress(self, name: str) -> list[dict[str, Any]]:
        """What Spark reports of a stream's last epochs: rows, offsets, and how long its parts took."""
        query = self.queries[name].query
        return [] if query is None else [json.loads(report.json) for report in query.recentProgress]

    def is_caught_up(self, name: str) -> bool:
        """Whether a stream's query has read all that its source has."""
        return self.queries.is_caught_up(name)

    # answers

    def view(self, name: str) -> RunView:
        """A view by its name: `run.view("by_page").to_polars()`."""
        return self._inspection.view(name)

    def query(self, sql: str, parameters: Parameters = ()) -> pl.DataFrame:
        """The answer to a SELECT over the views, of the newest commit; parameters stand as :name or ? in it."""
        return self._inspection.query(sql, parameters)

    # definitions

    def add_view(self, name: str, view: View, statement: str | None = None) -> None:
        """Keeps another view, or one that rested or that fires otherwise, from the next epoch on."""
        self._definitions.add_view(name, view, statement)

    def drop_view(self, name: str) -> None:
        """Removes a view, its table and its sinks, from the next epoch on."""
        self._definitions.drop_view(name)

    def rest_view(self, name: str) -> None:
        """Deactivates a view: its table stays, and it gets no more events until it is added again."""
        self._definitions.rest_view(name)

    def wake_view(self, name: str, view: View) -> None:
        """Activates a view that rested: it gets events again, from the next epoch on."""
        self._definitions.wake_view(name, view)

    def index(self, view: str, columns: Sequence[str]) -> None:
        """Adds an index, so that lookups by these columns of a view are fast."""
        self.store.index(view, *columns)

    def add_stream(self, name: str, stream: Stream, statement: str | None = None) -> None:
        """Reads another stream, from where its source begins."""
        self._definitions.add_stream(name, stream, statement)

    def drop_stream(self, name: str) -> None:
        """Removes a stream that nothing reads, with its position."""
        self._definitions.drop_stream(name)

    def add_sink(self, name: str, of: str, what: View | Flow, sink: Sink, statement: str | None = None) -> None:
        """Delivers to another sink."""
        self._definitions.add_sink(name, of, what, sink, statement)

    def drop_sink(self, name: str) -> None:
        """Removes a sink; delivered data stays where it is."""
        self._definitions.drop_sink(name)

    # history

    def savepoint(self, name: str, to: Path | None = None) -> Savepoint:
        """Takes a consistent cut of store, offsets and definitions, here or at a path. Epochs go on meanwhile."""
        return self._history.savepoint(name, to)

    def erase(self, stream: str, condition: str, reason: str | None = None) -> Tombstone:
        """Erases the events of a stream so far for which a condition holds: batch runs leave them out from now on."""
        return self._history.erase(stream, condition, reason)

    def retry_dead_letters(self, name: str, where: str | None = None) -> RetryCounts:
        """Retries dead letters of a stream, operator, view or sink: all, or those for which a condition holds."""
        streams = letter_streams(self.groups.streams, self.history, name)
        if not streams:
            return RetryCounts()
        with self.groups.turn(streams) as engine:
            retried = retry(engine, self.spark, name, where, self._lifecycle.clock)
        self._lifecycle.tell_committed()
        return retried

    # derived streams

    def processor_state(self, stream: str) -> pl.DataFrame:
        """What each key of the processor behind a stream has now: its states and timers, as of its last epoch."""
        return self._inspection.processor_state(stream, self.now())

    def model(self, stream: str, version: int | None = None) -> Model:
        """The model behind a stream: as it is whenever it is asked, or one of the versions that are kept."""
        return self._inspection.model(stream, version)

    def wait_for_epoch(self, name: str, number: int, seconds: float = 60.0) -> None:
        """Waits until the function of the stream of this name, made by `app.on_epoch`, was called for an epoch."""
        self._inspection.wait_for_epoch(name, number, seconds)

    def wait_through(self, stream: str, commit: int, seconds: float = 60.0) -> None:
        """Waits until all that is made from a stream has read its commits up to one, and is committed too."""
        self._inspection.wait_through(stream, commit, seconds)

    # start and stop

    def start(self) -> Run:
        """Starts reading."""
        if self._is_started:
            raise RunError("the run has been started already", hint="app.start(…) starts it; leave out .start()")
        self._is_started = True
        try:
            self.keeper.start()
            self.large_state.start()
            with self.phases.span("starting the queries"):
                self._reading.follow()
            self.phases.queries_started(self.directory)
            self.lanes.start()
            self._reading.start()
            self._outputs.start()
            if self._companion is not None:
                self._companion.begin()
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Stops at an epoch boundary. A run that has stopped stays as it is."""
        if self._is_stopped:
            return
        try:
            self.halt()
        finally:
            self.workspace.close()

    def halt(self) -> None:
        """Stops at an epoch boundary, and leaves the store open and locked: another run of this process goes on."""
        self._is_stopped = True
        if self._companion is not None:
            self._companion.end()
        self._lifecycle.stopping.set()
        self.keeper.stop()
        self.large_state.stop()
        self._reading.finish()
        self.lanes.stop()
        self._reading.stop()
        try:
            self._outputs.stop()
        finally:
            self.queries.close()

    def __enter__(self) -> Run:
        return self

    def __repr__(self) -> str:
        served = "" if self.url is None else f", served at {self.url}"
        return f"<run of {self.name} in {self.directory}, {self._condition}{served}>"

    def _repr_html_(self) -> str:
        """Its streams and views, and the address of its dashboard."""
        columns = {"stream " + name: stream.schema.names for name, stream in self.streams.items()}
        columns |= {"view " + name: view.plan.view.columns for name, view in self.views.items()}
        return run_html(f"{self.name}: {self._condition}", columns, self.url)

    @property
    def _condition(self) -> str:
        if self.failure is not None:
            return f"failed: {self.failure}"
        return "stopped" if self._is_stopped else "running" if self._is_started else "not started"

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, stack: object) -> None:
        """Stops the run. Raises what has ended it, unless something else was raised."""
        try:
            if kind is None:
                self.wait(0)
        finally:
            self.stop()

    # wait

    def wait(self, seconds: float | None = None) -> None:
        """Waits for `seconds`, or until a query fails."""
        self._reading.wait(seconds, self._raise_failure)

    def catch_up(self) -> None:
        """Waits until all that the sources hold now is committed, and new views have their history."""
        if self._companion is not None:
            self._companion.ready()
        self._reading.catch_up(self._raise_failure)

    def drain(self) -> None:
        """All input has ended: what the sources hold is read, and then every window that ends in event time is closed.

        The watermark of each stream goes to the end of time, first of those with a source of their own, then of those
        that are made from them: so timers fire and joins give what found no partner before the views above are closed.
        It stays there: what a stream brings in a later run is late for these views.
        """
        self.catch_up()
        self._reading.drain(self.catch_up)

    def _raise_failure(self) -> None:
        self._reading.check()
        self.lanes.check()
