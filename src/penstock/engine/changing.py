"""What comes and goes while an app runs: views, streams and sinks, each between two commits."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from penstock.engine.core import Engine
from penstock.engine.derived import check_unread
from penstock.engine.errors import RunError
from penstock.engine.pace import Pace
from penstock.engine.realtime import Lanes, is_lane
from penstock.logs import Follower, Log
from penstock.model.rows import Rows
from penstock.model.stream import Flow, Stream
from penstock.model.time import Instant
from penstock.model.view import View
from penstock.sinks import Delivery, Sink
from penstock.store import SqlStore
from penstock.store.checkpoints import Place

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


def reads_kafka(streams: Mapping[str, Stream]) -> bool:
    """Whether one of these streams comes from Kafka."""
    return any(isinstance(stream.log, Log) and stream.log.needs_kafka for stream in streams.values())


def is_replayable(stream: Stream) -> bool:
    """Whether a stream can be read again from an offset."""
    return not isinstance(stream.log, Log) or stream.log.replayable


class Changing(ABC):
    """The part of a run that changes what runs. One caller at a time; epochs and ticks are kept apart by the mutex."""

    engine: Engine
    store: SqlStore
    delivery: Delivery
    lanes: Lanes
    _spark: SparkSession
    _clock: Callable[[], Instant]
    _mutex: threading.RLock
    _planning: threading.Lock  # one query is started again at a time
    _paces: dict[str, Pace]
    _queries: dict[str, StreamingQuery]
    _followers: dict[str, Follower]
    _columns: dict[str, tuple[str, ...]]
    _restarting: set[str]  # streams whose plan lacks a column that a new view needs, or that are dropped
    _waiting: set[str]

    @abstractmethod
    def _checkpoint(self, name: str) -> Place: ...

    @abstractmethod
    def _delivered_as(self, name: str, what: View | Flow) -> View | Rows: ...

    @abstractmethod
    def _needed(self, name: str) -> tuple[str, ...]: ...

    @abstractmethod
    def _log(self, name: str) -> Log: ...

    @abstractmethod
    def _start_query(self, name: str) -> None: ...

    def _follow(self, name: str) -> None:
        self._followers[name] = self._log(name).follow(self._checkpoint(name))
        self._start_query(name)

    # views

    def add_view(self, name: str, view: View, statement: str | None = None) -> None:
        """Keeps another view, or one that rested or that fires otherwise, from the next epoch on.

        The statement of a shell that made it is remembered in the transaction that makes its table.
        """
        with self._mutex:
            self.engine.keep({name: view}, {} if statement is None else {name: statement})
            lacking = self._lacking()
        self._restart_all(lacking)

    def drop_view(self, name: str) -> None:
        """Gives up a view, its table and its sinks, from the next epoch on."""
        self.delivery.drop_view(name)
        with self._mutex:
            self.engine.drop(name)

    def rest_view(self, name: str) -> None:
        """Keeps a view's table and gives it no more events, until it is added again."""
        with self._mutex:
            self.engine.rest(name)
            self.store.note_rest(name, True)

    def wake_view(self, name: str, view: View) -> None:
        """Gives a view that rested events again, from the next epoch on."""
        self.add_view(name, view)
        with self._mutex:
            self.store.note_rest(name, False)

    def index(self, view: str, columns: Sequence[str]) -> None:
        """Makes questions by these columns of a view fast, from the end of this epoch on."""
        with self._mutex:
            self.store.index(view, *columns)

    # streams

    def add_stream(self, name: str, stream: Stream, statement: str | None = None) -> None:
        """Reads another stream, from where its log begins."""
        if reads_kafka({name: stream}) and "kafka" not in (self._spark.conf.get("spark.jars", "") or ""):
            raise RunError("Spark was started without its Kafka connector", hint="start the app with --kafka")
        with self._mutex:
            self.engine.add_stream(name, stream, self._clock())
            if not is_replayable(stream):
                self._checkpoint(name).remove()
            if statement is not None:
                self.store.note("stream", name, statement)
            try:
                self._follow(name)
            except BaseException:
                self._forget_stream(name)
                raise

    def drop_stream(self, name: str) -> None:
        """Stops reading a stream that nothing reads, and forgets how far it was."""
        check_unread(self.engine.streams, name)
        with self._mutex:
            self._restarting.add(name)  # from here on none of its epochs begins
        with self._planning:
            if name in self._queries:
                self._queries[name].stop()  # without the mutex: Spark waits for an epoch that it has just called
            with self._mutex:
                self._forget_stream(name)
                self._restarting.discard(name)

    def _forget_stream(self, name: str) -> None:
        self._queries.pop(name, None)
        self._columns.pop(name, None)
        self._paces.pop(name, None)
        self._waiting.discard(name)
        if name in self._followers:
            self._followers.pop(name).close()
        self.engine.drop_stream(name)
        self._checkpoint(name).remove()
        self.store.forgotten(name)

    # sinks

    def add_sink(self, name: str, of: str, what: View | Flow, sink: Sink, statement: str | None = None) -> None:
        """Delivers to another sink: what the outbox still holds of its view, or the rows of a flow from now on.

        A sink in real-time mode gets what the log holds.
        """
        if is_lane(sink):
            self.lanes.add(name, what, sink)
            with self._mutex:
                self.store.note("sink", name, statement)
            return
        with self._mutex:
            if isinstance(what, Flow):
                self.engine.add_flow(of, what)
            elif of not in self.engine.views:
                raise RunError(f"the view «{of}» rests", hint=f"ACTIVATE VIEW {of} first")
            try:
                self.delivery.add(name, of, self._delivered_as(of, what), sink)
                if statement is not None:
                    self.store.note("sink", name, statement)
            except BaseException:
                if isinstance(what, Flow) and of not in self.delivery.targets:
                    self.engine.drop_flow(of)
                raise
            lacking = self._lacking()
        self._restart_all(lacking)

    def drop_sink(self, name: str) -> None:
        """Gives up a sink; what it has stays where it is."""
        if name in self.lanes:
            self.lanes.drop(name)
            with self._mutex:
                self.store.forget_sink(name)
            return
        of = self.delivery.drop(name)
        with self._mutex:
            last = of in self.engine.flows and of not in self.delivery.targets
            if last:
                self.engine.drop_flow(of)
            self.store.forget_sink(name, of if last else None)

    # plans

    def _lacking(self) -> set[str]:
        """The streams whose plan lacks a column that is needed now: none of their epochs begins until they restart."""
        lacking = {name for name in self._queries if set(self._needed(name)) - set(self._columns[name])}
        self._restarting |= lacking
        return lacking

    def _restart_all(self, streams: Collection[str]) -> None:
        for stream in sorted(streams):
            self._restart(stream)

    def _restart(self, name: str) -> None:
        """Another column that a view needs, or another limit, restarts the stream's plan, at an epoch boundary."""
        with self._planning:
            if name not in self._queries:
                return  # it was dropped meanwhile
            self._queries[name].stop()  # without the mutex: Spark waits for an epoch that it has just called
            with self._mutex:
                self._start_query(name)
                self._restarting.discard(name)
