"""Compiles the definitions of an app to the graph of its dataflow."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Final, Protocol, runtime_checkable

from penstock.dataflow.explanation import Explanation as Explanation
from penstock.dataflow.graph import Edge, Kind, Node
from penstock.dataflow.graph import Graph as Graph
from penstock.dataflow.join_operator import JoinOperator
from penstock.dataflow.operator import Operator
from penstock.dataflow.operators import operator_of
from penstock.dataflow.process_operator import ProcessOperator
from penstock.model.changes import Changes, carried
from penstock.model.placement import Placement
from penstock.model.stream import Branch, Flow, Stream, branches
from penstock.model.table import Table, tables
from penstock.model.time import show_duration
from penstock.model.view import View
from penstock.model.watermarks import Carried

#: The longest text of a step that is shown.
_WIDE: Final = 60
#: A source's text: its kind and its first argument. Others are long, and may be secrets.
_SOURCE: Final = re.compile(r"(?:ps\.)?(\w+)\(('(?:[^'\\]|\\.)*')?")


class Definitions(Protocol):
    """What an app has."""

    @property
    def name(self) -> str: ...
    @property
    def streams(self) -> Mapping[str, Stream]: ...
    @property
    def views(self) -> Mapping[str, View]: ...
    @property
    def tables(self) -> Mapping[str, Table]: ...
    @property
    def sinks(self) -> Mapping[str, tuple[str, View | Flow, object]]: ...
    @property
    def placements(self) -> Mapping[str, Placement]: ...


@runtime_checkable
class DerivedSource(Protocol):
    """The source of a stream that a query of its own makes from other streams: a loop, a topology, a learner."""

    @property
    def inputs(self) -> tuple[Stream, ...]: ...


@runtime_checkable
class ViewSource(Protocol):
    """The source of a table that shows a view."""

    @property
    def view(self) -> str: ...


def graph_of(app: Definitions) -> Graph:
    """The graph of an app."""
    builder = _Builder(app)
    for table in app.tables.values():
        builder.add_table(table)
    for stream in app.streams.values():
        builder.add_stream(stream)
    for name, view in app.views.items():
        builder.add_view(name, view)
    for name, (view_name, what, sink) in app.sinks.items():
        builder.add_sink(name, view_name, what, sink)
    return _grouped(Graph(app.name, tuple(builder.nodes.values()), tuple(builder.edges)))


class _Builder:
    """Collects nodes and edges."""

    def __init__(self, app: Definitions) -> None:
        self._app = app
        self.nodes: dict[str, Node] = {}
        self.edges: dict[Edge, None] = {}  # in order

    def add_table(self, table: Table) -> str:
        id = f"table {table.name}"
        if id not in self.nodes:
            detail = "" if table.source is None else source_text(table.source)
            self.nodes[id] = Node(id, "table", table.name, detail, table.key, hold=f"reload: {table.shown_reload}")
            if isinstance(table.source, ViewSource):
                self._connect(f"view {table.source.view}", id)
        return id

    def add_stream(self, stream: Stream) -> str:
        if isinstance(stream, Changes):
            return self.add_view(stream.name, stream.of)
        id = f"stream {stream.name}"
        if id in self.nodes:
            return id
        operator = operator_of(stream)
        if operator is not None:
            self.nodes[id] = _operator_node(id, stream, operator)
            for flow in operator.inputs:
                self._read(flow, id)
            for table in operator.tables.values():
                self._connect(self.add_table(table), id)
        elif isinstance(stream.log, DerivedSource):
            kind = type(stream.log).__name__.removesuffix("Source").lower()
            self.nodes[id] = Node(id, "derived", stream.name, f"{kind}, in a query of its own", kept=stream.kept)
            for source in stream.log.inputs:
                self._connect(self.add_stream(source), id)
        else:
            self.nodes[id] = _source_node(id, stream)
        return id

    def add_view(self, name: str, view: View) -> str:
        id = f"view {name}"
        if id not in self.nodes:
            hold = -carried(view, 0)
            chosen = self._app.placements.get(name, Placement()).kind
            self.nodes[id] = Node(
                id, "view", name, repr(view.windows) if view.windows.ends_in_event_time else "",
                _keys(view), "segments" if chosen == "sharded" else "store", hold=_held(hold) if hold else None,
            )  # fmt: skip
            self._read(view.input, id)
        return id

    def add_sink(self, name: str, of: str, what: View | Flow, sink: object) -> None:
        id = f"sink {name}"
        self.nodes[id] = Node(id, "sink", name, type(sink).__name__.lower())
        if isinstance(what, View):
            self._connect(self.add_view(of, what), id)
        else:
            self._read(what, id)

    def _read(self, flow: Flow, reader: str) -> None:
        """A node reads a flow: its streams, through the steps without state, and its tables."""
        for branch in branches(flow):
            self._connect(self.add_stream(branch.source), reader, _steps(branch))
        for table in tables(flow).values():
            self._connect(self.add_table(table), reader)

    def _connect(self, start: str, end: str, steps: tuple[str, ...] = ()) -> None:
        self.edges[Edge(start, end, steps)] = None


def _source_node(id: str, stream: Stream) -> Node:
    keys, state = ((), None) if stream.id is None else ((stream.id,), "store")
    hold = None if stream.watermark is None else f"watermark {repr(stream.watermark).removeprefix('ps.')}"
    return Node(id, "source", stream.name, source_text(stream.log), keys, state, stream.kept, hold)


def _operator_node(id: str, stream: Stream, operator: Operator) -> Node:
    kind: Kind = "processor"
    keys, detail = _keys(operator.views[0]), ""
    if isinstance(operator, JoinOperator):
        kind, join = "join", operator.join
        keys = tuple(f"{left} = {right}" for left, right in join.on)
        detail = f"{join.how}, as of the event's time" if join.as_of else join.how
    elif isinstance(operator, ProcessOperator):
        processor = operator.process.processor
        if processor.alerts_when is not None:
            kind, detail = "alert", " ".join(processor.alerts_when.split())
        else:
            kind = "processor" if processor.finds is None else "pattern"
            detail = processor.__name__ if processor.finds is None else ""
    return Node(id, kind, stream.name, detail, keys, "segments", stream.kept, _hold(stream, operator))


def _hold(stream: Stream, operator: Operator) -> str | None:
    """How the watermark of an operator's output follows that of its inputs."""
    if stream.watermark is None:
        return None
    if not isinstance(stream.watermark, Carried):
        return f"watermark {repr(stream.watermark).removeprefix('ps.')} of its rows"
    return "watermark held by its earliest timer" if operator.hold is None else _held(operator.hold)


def _held(hold: int) -> str:
    return f"watermark held back by {show_duration(hold)}" if hold else "watermark of its inputs"


def _keys(view: View) -> tuple[str, ...]:
    return tuple(name if name == text else f"{text} AS {name}" for name, text in view.keys)


def _steps(branch: Branch) -> tuple[str, ...]:
    labels = (" ".join(step.label.split()) for step in branch.steps)
    return tuple(label if len(label) <= _WIDE else f"{label[: _WIDE - 1]}…" for label in labels)


def source_text(source: object) -> str:
    """A source by its kind and first argument."""
    if source is None:
        return ""
    text = repr(source)
    match = _SOURCE.match(text)
    return text[:_WIDE] if match is None else f"{match[1]}({match[2] or ''})"


def _grouped(graph: Graph) -> Graph:
    """The same with the numbers of groups: nodes that rows connect. What is looked up in a table connects nothing."""
    group_of = {node.id: {node.id} for node in graph.nodes}

    def connect(first: str, second: str) -> None:
        union = group_of[first] | group_of[second]
        for id in union:
            group_of[id] = union

    kinds = {node.id: node.kind for node in graph.nodes}
    for edge in graph.edges:
        if "table" not in (kinds[edge.start], kinds[edge.end]):
            connect(edge.start, edge.end)
    for node in graph.nodes:
        if node.kind == "table":  # it belongs to a group if no other reads it
            around = [edge.end if edge.start == node.id else edge.start for edge in graph.edges
                      if node.id in (edge.start, edge.end)]  # fmt: skip
            readers = {frozenset(group_of[id]) for id in around if kinds[id] != "table"}
            if len(readers) == 1:
                connect(node.id, around[0])
    numbers: dict[frozenset[str], int] = {}
    for node in graph.nodes:
        members = frozenset(group_of[node.id])
        if any(kinds[id] != "table" for id in members):
            numbers.setdefault(members, len(numbers) + 1)
    nodes = (replace(node, group=numbers.get(frozenset(group_of[node.id]), 0)) for node in graph.nodes)
    return replace(graph, nodes=tuple(nodes))
