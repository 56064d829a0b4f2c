"""Views, streams and sinks that come and go while an app runs, each between two commits of its group."""

from __future__ import annotations

from penstock.model.changes import origins
from penstock.model.stream import Flow, Stream
from penstock.model.view import View
from penstock.runtime.derived.base import check_unread
from penstock.runtime.errors import RunError
from penstock.runtime.groups import Groups
from penstock.runtime.outputs import Outputs, delivered_as
from penstock.runtime.queries.checkpoints import is_replayable
from penstock.runtime.queries.lifecycle import Lifecycle
from penstock.runtime.queries.queries import Queries
from penstock.runtime.queries.realtime import is_lane
from penstock.runtime.queries.stream_query import part
from penstock.runtime.workspace import Workspace, check_connector
from penstock.sinks import Sink
from penstock.sources import Source


class Definitions:
    """Changes what runs. A definition waits for the epochs of its own group only."""

    def __init__(
        self, workspace: Workspace, groups: Groups, queries: Queries, outputs: Outputs, lifecycle: Lifecycle
    ) -> None:
        self._workspace, self._store, self._groups, self._queries = workspace, workspace.store, groups, queries
        self._delivery, self._lanes, self._lifecycle = outputs.delivery, outputs.lanes, lifecycle

    # views

    def add_view(self, name: str, view: View, statement: str | None = None) -> None:
        """Keeps another view, or one that rested or that fires otherwise, from the next epoch on.

        The statement of a shell that made it is stored in the transaction that makes its table.
        """
        with self._groups.turn([source.name for source in origins(view)]) as engine:
            engine.registry.keep({name: view}, {} if statement is None else {name: statement})
            lacking = self._queries.hold_lacking(engine.registry.streams)
        self._queries.restart(lacking)

    def drop_view(self, name: str) -> None:
        """Removes a view, its table and its sinks, from the next epoch on."""
        self._delivery.drop_view(name)
        streams = self._groups.streams_below(name)
        if not streams:  # it rests
            self._store.drop(name)
            return
        with self._groups.turn(streams) as engine:
            engine.registry.drop(name)

    def rest_view(self, name: str) -> None:
        """Deactivates a view: its table stays, and it gets no more events until it is added again."""
        self._groups.rest(name)
        self._store.note_rest(name, True)

    def wake_view(self, name: str, view: View) -> None:
        """Activates a view that rested: it gets events again, from the next epoch on."""
        self.add_view(name, view)
        self._store.note_rest(name, False)

    # streams

    def add_stream(self, name: str, stream: Stream, statement: str | None = None) -> None:
        """Reads another stream, from where its source begins."""
        check_connector(self._workspace.spark, {name: stream})
        if isinstance(stream.log, Source):
            stream.log.check_answer()
        self._groups.add_stream(name, stream, self._lifecycle.clock())
        with self._groups.turn([name]) as engine:
            if not is_replayable(stream):
                self._workspace.checkpoint(name).remove()
            if statement is not None:
                self._store.note("stream", name, statement)
            try:
                engine.begin_operators(self._lifecycle.clock())
                self._queries.follow(name)
            except BaseException:
                self._queries.forget(name)
                raise
            lacking = self._queries.hold_lacking(engine.registry.streams)
        self._queries.restart(lacking)

    def drop_stream(self, name: str) -> None:
        """Removes a stream that nothing reads, with its position."""
        check_unread(self._groups.streams, name)
        self._queries.drop(name)
        self._lifecycle.retries.forget(part(name))

    # sinks

    def add_sink(self, name: str, of: str, what: View | Flow, sink: Sink, statement: str | None = None) -> None:
        """Delivers to another sink: what the outbox still holds of its view, or the rows of a flow from now on.

        A sink in real-time mode gets what the source holds.
        """
        if is_lane(sink):
            self._lanes.add(name, what, sink)
            self._store.note("sink", name, statement)
            return
        sources = what.sources if isinstance(what, Flow) else origins(what)
        with self._groups.turn([source.name for source in sources]) as engine:
            if isinstance(what, Flow):
                engine.registry.add_flow(of, what)
            elif of not in engine.registry.views:
                raise RunError(f"the view '{of}' rests", hint=f"ACTIVATE VIEW {of} first")
            try:
                self._delivery.add(name, of, delivered_as(self._groups, of, what), sink)
                if statement is not None:
                    self._store.note("sink", name, statement)
            except BaseException:
                if isinstance(what, Flow) and of not in self._delivery.targets:
                    engine.registry.drop_flow(of)
                raise
            lacking = self._queries.hold_lacking(engine.registry.streams)
        self._queries.restart(lacking)

    def drop_sink(self, name: str) -> None:
        """Removes a sink; delivered data stays where it is."""
        if name in self._lanes:
            self._lanes.drop(name)
            self._store.forget_sink(name)
            return
        of = self._delivery.drop(name)
        streams = self._groups.streams_below(of)
        if not streams:  # its view rests
            self._store.forget_sink(name)
            return
        with self._groups.turn(streams) as engine:
            is_last = of in engine.registry.flows and of not in self._delivery.targets
            if is_last:
                engine.registry.drop_flow(of)
            self._store.forget_sink(name, of if is_last else None)
