"""The dataflow of an app as a graph: what it reads, keeps and gives, and what flows where. Plain values.

>>> orders = Node("stream orders", "source", "orders", group=1)
>>> by_item = Node("view by_item", "view", "by_item", keys=("item",), state="store", group=1)
>>> graph = Graph("shop", (by_item, orders), (Edge("stream orders", "view by_item", ("where('n > 1')",)),))
>>> print(graph.text())
dataflow of shop
  group 1
    source orders
      view by_item ← orders → where('n > 1') · by item · state in the store
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any, Final, Literal, TypeAlias

from penstock.model.alert_processor import alert_of

Kind: TypeAlias = Literal["source", "table", "join", "processor", "pattern", "alert", "derived", "view", "sink"]
#: Asks a store for the graph that it keeps, as JSON.
GRAPH: Final = "SELECT statement FROM __catalog WHERE kind = 'graph'"
#: Where state can live, as text.
_STATES: Final = {"store": "state in the store", "segments": "state in segments"}


@dataclass(frozen=True)
class Node:
    """A part of an app. The rows of a source, an operator or a derived stream are the stream of its name.

    `detail` is where a source or table is read, or what an operator does. `keys` are those of its state. `state` says
    where that lives: "store" or "segments". `kept` is how much of its output the history keeps. `hold` says how its
    watermark follows that of its inputs. Tables that several groups read have the group 0.
    """

    id: str
    kind: Kind
    name: str
    detail: str = ""
    keys: tuple[str, ...] = ()
    state: str | None = None
    kept: str | None = None
    hold: str | None = None
    group: int = 0

    @property
    def facts(self) -> list[str]:
        """What there is to say about it, without its inputs."""
        by = "duplicates by" if self.kind == "source" else "by"
        facts = [self.detail, f"{by} {', '.join(self.keys)}" if self.keys else "", self.hold or ""]
        facts += [_STATES[self.state]] if self.state else []
        facts += [f"kept: {self.kept}"] if self.kept else []
        if self.kept == "none" and self.kind in ("join", "processor", "pattern", "alert"):
            facts.append("its readers cannot be audited or backfilled")
        return [fact for fact in facts if fact]


@dataclass(frozen=True)
class Edge:
    """Rows flow from a node to another, through steps without state. From a table they are looked up."""

    start: str
    end: str
    steps: tuple[str, ...] = ()


@dataclass(frozen=True)
class AlertNode:
    """An alert of an app: the view that it watches, and its condition."""

    name: str
    of: str
    when: str


@dataclass(frozen=True)
class Graph:
    """The nodes and edges of an app."""

    app: str
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]

    @cached_property
    def by_id(self) -> Mapping[str, Node]:
        return {node.id: node for node in self.nodes}

    @cached_property
    def levels(self) -> Mapping[str, int]:
        """How far each node is from a source: one more than the furthest of its inputs."""
        inputs = {node.id: [edge.start for edge in self.edges if edge.end == node.id] for node in self.nodes}
        levels: dict[str, int] = {}

        def level(id: str, path: frozenset[str]) -> int:
            if id not in levels:
                rest = [one for one in inputs[id] if one not in path and one != id]  # a table may show a view above it
                levels[id] = 1 + max((level(one, path | {id}) for one in rest), default=-1)
            return levels[id]

        for node in self.nodes:
            level(node.id, frozenset())
        return levels

    @property
    def ordered(self) -> list[Node]:
        """The nodes, each after those that it reads, and near them."""
        order: list[Node] = []

        def visit(node: Node) -> None:
            if node in order:
                return
            inputs = [self.by_id[edge.start] for edge in self.edges if edge.end == node.id]
            if any(one not in order and self.levels[one.id] < self.levels[node.id] for one in inputs):
                return  # its last input brings it
            order.append(node)
            for edge in self.edges:
                if edge.start == node.id:
                    visit(self.by_id[edge.end])

        for node in sorted(self.nodes, key=lambda node: (self.levels[node.id], node.group)):
            visit(node)
        return order

    @property
    def groups(self) -> dict[int, list[Node]]:
        """The nodes of each group, in order."""
        groups: dict[int, list[Node]] = {}
        for node in self.ordered:
            groups.setdefault(node.group, []).append(node)
        return dict(sorted(groups.items()))

    @cached_property
    def feeding(self) -> dict[str, frozenset[str]]:
        """By view the streams whose epochs feed it. A derived stream has epochs of its own: what it reads is not named.

        What is read of tables does not count.
        """
        known: dict[str, frozenset[str]] = {}

        def streams(node: Node) -> frozenset[str]:
            if node.kind in ("source", "derived", "table"):
                return frozenset() if node.kind == "table" else frozenset([node.name])
            if node.id not in known:
                inputs = [self.by_id[edge.start] for edge in self.edges if edge.end == node.id]
                known[node.id] = frozenset().union(*map(streams, inputs))
            return known[node.id]

        return {node.name: streams(node) for node in self.nodes if node.kind == "view"}

    @property
    def alerts(self) -> list[AlertNode]:
        """The alerts, each with what it watches."""
        return [
            AlertNode(alert_of(node.name), self.by_id[edge.start].name, node.detail)
            for node in self.nodes
            for edge in self.edges
            if node.kind == "alert" and edge.end == node.id
        ]

    def with_states(self, states: Mapping[str, str]) -> Graph:
        """The same, with the places in which the states of views are now, by the name of the view."""
        nodes = (
            replace(node, state=states[node.name]) if node.kind == "view" and node.name in states else node
            for node in self.nodes
        )
        return replace(self, nodes=tuple(nodes))

    def text(self) -> str:
        """One line a node, each below those that it reads."""
        lines = [f"dataflow of {self.app}"]
        for group, nodes in self.groups.items():
            lines.append(f"  group {group}" if group else "  tables of several groups")
            lines += [f"{'  ' * (2 + self.levels[node.id])}{self._line(node)}" for node in nodes]
        return "\n".join(lines)

    def _line(self, node: Node) -> str:
        inputs = [
            " → ".join([self.by_id[edge.start].name, *edge.steps])
            for edge in self.edges
            if edge.end == node.id and (node.kind == "table" or self.by_id[edge.start].kind != "table")
        ]
        source = f" ← {' and '.join(inputs)}" if inputs else ""
        return " · ".join([f"{node.kind} {node.name}{source}", *node.facts])

    def to_json(self) -> str:
        """As a store keeps it."""
        return json.dumps(asdict(self))


def graph_from_json(text: str) -> Graph:
    """A graph that a store has kept."""
    value: dict[str, Any] = json.loads(text)
    nodes = (Node(**{**node, "keys": tuple(node["keys"])}) for node in value["nodes"])
    edges = (Edge(edge["start"], edge["end"], tuple(edge["steps"])) for edge in value["edges"])
    return Graph(value["app"], tuple(nodes), tuple(edges))
