"""The queries of a run, one for each stream: started, restarted with another plan, dropped."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias

from penstock.dataflow.operators import operator_of
from penstock.model.row_steps import runs_code
from penstock.model.stream import Stream
from penstock.runtime.commit.registry import Registry
from penstock.runtime.derived.base import Derived
from penstock.runtime.derived.commit_feed import CommitFeed
from penstock.runtime.epoch.needs import needed
from penstock.runtime.groups import Groups, inputs_of
from penstock.runtime.queries.admission import BOUNDS, Bounds
from penstock.runtime.queries.checkpoints import is_replayable
from penstock.runtime.queries.pace import Pace, last_limits
from penstock.runtime.queries.standby import mended
from penstock.runtime.queries.stream_query import StreamQuery
from penstock.runtime.workspace import Workspace
from penstock.sources import Source

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

#: Starts a stream's query in a pool.
Launch: TypeAlias = "Callable[[StreamQuery, Stream, str], StreamingQuery]"


class Queries:
    """Queries by stream. `launch` starts one in Spark; `target`: how long an epoch may take, within `bounds`."""

    def __init__(
        self,
        workspace: Workspace,
        groups: Groups,
        launch: Launch,
        feed: CommitFeed,
        target: float | None,
        bounds: Sequence[Bounds] = BOUNDS,
    ) -> None:
        self._workspace, self._store, self._groups = workspace, workspace.store, groups
        self._launch, self._feed, self._target, self._bounds = launch, feed, target, bounds
        self._queries: dict[str, StreamQuery] = {}

    def __getitem__(self, name: str) -> StreamQuery:
        return self._queries[name]

    def __contains__(self, name: object) -> bool:
        return name in self._queries

    def __iter__(self) -> Iterator[StreamQuery]:
        return iter(list(self._queries.values()))

    def get(self, name: str) -> StreamQuery | None:
        return self._queries.get(name)

    def is_caught_up(self, name: str) -> bool:
        """Whether a stream's query has read all that its source has; a derived stream also what its inputs have."""
        query, stream = self._queries.get(name), self._stream(name)
        if not all(self.is_caught_up(one) for one in inputs_of(stream)):
            return False
        return operator_of(stream) is not None or (query is not None and query.ask_whether_waiting())

    # start

    def follow(self, name: str) -> None:
        """Begins to read a stream."""
        stream, checkpoint = self._stream(name), self._workspace.checkpoint(name)
        if operator_of(stream) is not None:
            return  # it runs in the epochs of its inputs
        assert isinstance(stream.log, Source)
        source = stream.log.placed(self._workspace.directory, name, stream.schema)
        if isinstance(source, Derived):
            source = source.fed_by(self._feed)
        code = _runs_code(self._groups.of(name).engine.registry, name)
        pace = Pace(source, self._target, last_limits(self._store).get(name), self._bounds, runs_code=code)
        query = self._queries[name] = StreamQuery(name, checkpoint, pace, source.follow(checkpoint))
        self._start(query)

    def _stream(self, name: str) -> Stream:
        return self._groups.of(name).engine.registry.streams[name]

    def _start(self, query: StreamQuery) -> None:
        query.columns, query.is_waiting = self._needed(query.name), False
        query.query = self._launch(query, self._stream(query.name), self._groups.of(query.name).pool)
        query.pace.began(query.name, query.query)

    def _needed(self, name: str) -> tuple[str, ...]:
        stream = self._stream(name)
        if not is_replayable(stream):
            return stream.schema.names  # a restart for one more column would lose events
        if stream.kept != "none":
            return stream.schema.names  # the history keeps them all
        return needed(stream, self._groups.of(name).engine.registry.lowered)

    # another plan

    def hold_lacking(self, streams: Collection[str]) -> list[str]:
        """Those of the streams whose plan lacks a column that is needed now. None of their epochs begins.

        The caller has the turn of the streams, and restarts them after it.
        """
        known = [self._queries[name] for name in streams if name in self._queries]
        lacking = [query for query in known if set(self._needed(query.name)) - set(query.columns)]
        for query in lacking:
            query.is_held = True
        return [query.name for query in lacking]

    def restart(self, streams: Collection[str]) -> None:
        """Starts queries with another plan, at an epoch boundary."""
        for name in sorted(streams):
            query = self._queries.get(name)
            if query is None:
                continue
            with query.planning:
                if name not in self._queries or query.query is None:
                    continue  # it was dropped meanwhile
                query.query.stop()  # outside a turn: Spark waits for an epoch that it has just called
                with self._groups.turn([name]):
                    query.restarted.clear()
                    try:
                        self._start(query)
                        query.is_held = False
                    finally:
                        query.restarted.set()

    def resume(self, query: StreamQuery) -> None:
        """The same query again, from the last commit on. Nothing happens where another has started it already."""
        with query.planning, self._groups.turn([query.name]):
            if query.name not in self._queries or query.is_held or query.query is None or query.query.isActive:
                return
            self._store.check_place()  # Spark would make a new checkpoint where the directory is gone
            mended(query.name, query.checkpoint, self._store)
            query.follower.close()
            query.follower = query.pace.placed.follow(query.checkpoint)
            self._start(query)

    # end

    def drop(self, name: str) -> None:
        """Stops reading a stream, and forgets it."""
        query = self._queries.get(name)
        if query is None:
            with self._groups.turn([name]):
                self.forget(name)
            return
        with self._groups.turn([name]):
            query.is_held = True  # from here on none of its epochs begins
        with query.planning:
            if query.query is not None:
                query.query.stop()  # outside a turn: Spark waits for an epoch that it has just called
            with self._groups.turn([name]):
                self.forget(name)

    def forget(self, name: str) -> None:
        """Removes all that is known of a stream. Its query has ended, or did not start."""
        query = self._queries.pop(name, None)
        if query is not None:
            query.follower.close()
        self._groups.drop_stream(name)
        self._workspace.checkpoint(name).remove()
        self._store.forgotten(name)

    def stop(self) -> None:
        """Stops all queries."""
        for query in self:
            if query.query is not None:
                query.query.stop()

    def close(self) -> None:
        """Lets go of what followers have opened."""
        for query in self:
            query.follower.close()


def _runs_code(registry: Registry, stream: str) -> bool:
    """Whether users' Python functions run on the rows of a stream, or on those that operators make of them."""
    if any(runs_code(flow) for flow in registry.flows_of(stream)):
        return True
    readers = [one for one in registry.operators.values() if stream in {source.name for source in one.sources}]
    return any(one.operator.runs_code or _runs_code(registry, one.name) for one in readers)
