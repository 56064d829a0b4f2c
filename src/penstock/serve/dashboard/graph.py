"""The app as a graph: logs → streams → operators → views → sinks, with tables, and live rates on the edges."""

from __future__ import annotations

from math import log10
from typing import Any, Final, TypeAlias

from penstock.dataflow.graph import Edge, Graph, Node
from penstock.serve.dashboard.charts import framed
from penstock.serve.dashboard.snapshot import SinkNow, Snapshot, StreamNow, ViewNow
from penstock.serve.dashboard.style import SOFT
from penstock.serve.dashboard.words import number, rate

_COLORS: Final = {
    "log": "#475569", "stream": "#0e7490", "table": "#64748b", "join": "#b45309", "processor": "#b45309",
    "pattern": "#b45309", "alert": "#be123c", "derived": "#4338ca", "view": "#0f766e", "sink": "#7c3aed",
}  # fmt: skip
Nodes: TypeAlias = dict[str, tuple[str, str, str]]
Edges: TypeAlias = list[tuple[str, str, float]]


def parts(snapshot: Snapshot) -> tuple[Nodes, Edges]:
    """The nodes by id, with kind, name and note; and the edges: from, to, and how many a second."""
    nodes: Nodes = {}
    edges: dict[tuple[str, str], float] = {}
    graph = snapshot.graph or _from_definitions(snapshot)
    for node in graph.nodes:
        if node.kind == "source":
            log, stream = f"log {node.name}", snapshot.streams.get(node.name)
            kind, _, rest = node.detail.partition("(")
            nodes[log] = ("log", kind or "log", rest.rstrip(")")[:24] or node.name)
            edges[log, node.id] = 0.0 if stream is None else stream.rate
        nodes[node.id] = ("stream" if node.kind == "source" else node.kind, node.name, _note(node, snapshot))
    for edge in graph.edges:
        edges[edge.start, edge.end] = _rate(graph.by_id[edge.start], snapshot)
    return nodes, [(start, end, speed) for (start, end), speed in edges.items()]


def _from_definitions(snapshot: Snapshot) -> Graph:
    """The graph of an app that has noted none: it has not run since it is noted. Operators are shown as streams."""
    nodes = [Node(f"stream {one.name}", "source", one.name, one.log) for one in snapshot.streams.values()]
    nodes += [Node(f"view {name}", "view", name) for name in snapshot.views]
    nodes += [Node(f"sink {name}", "sink", name) for name in snapshot.sinks]
    ids = {node.id for node in nodes}
    edges = [
        Edge(start, f"view {view.name}")
        for view in snapshot.views.values()
        for start in [*(f"stream {name}" for name in view.streams), *(f"view {name}" for name in view.views)]
        if start in ids
    ]
    edges += [Edge(f"view {sink.view}", f"sink {sink.name}") for sink in snapshot.sinks.values() if sink.view]
    return Graph("", tuple(nodes), tuple(edges))


def _note(node: Node, snapshot: Snapshot) -> str:
    """The current text of a node."""
    stream, view, sink = (of.get(node.name) for of in (snapshot.streams, snapshot.views, snapshot.sinks))
    if node.kind == "table":
        return node.detail
    if node.kind == "view":
        return "" if not isinstance(view, ViewNow) else "rests" if view.rests else f"{rate(view.rate)} panes"
    if node.kind == "sink":
        missing = sink.behind if isinstance(sink, SinkNow) else 0
        return f"{number(missing)} panes behind" if missing else "has all panes"
    events, behind = (stream.events, stream.behind) if isinstance(stream, StreamNow) else (0, None)
    what = "events" if node.kind == "source" else f"rows, {node.kind}"
    return f"{number(events)} {what}{f', {number(behind)} behind' if behind else ''}"


def _rate(node: Node, snapshot: Snapshot) -> float:
    """How many rows or panes a second a node gives."""
    if node.kind == "table":
        return 0.0
    known = snapshot.views.get(node.name) if node.kind == "view" else snapshot.streams.get(node.name)
    return 0.0 if known is None else known.rate


def height(snapshot: Snapshot, upright: bool) -> int:
    """How many pixels the graph needs."""
    nodes, edges = parts(snapshot)
    if upright:
        return 30 + 74 * max(1, len(nodes))
    columns = list(_columns(nodes, edges).values())
    return max(220, 84 * max((columns.count(column) for column in columns), default=1))


def _columns(nodes: Nodes, edges: Edges) -> dict[str, int]:
    """In which column a node stands: after all that it reads. Tables stand before their readers, sinks at the end."""
    inputs = {id: [start for start, end, _ in edges if end == id] for id in nodes}
    columns: dict[str, int] = {}

    def column(id: str, path: frozenset[str] = frozenset()) -> int:
        if id not in columns:
            columns[id] = 1 + max((column(one, path | {id}) for one in inputs[id] if one not in path), default=-1)
        return columns[id]

    for id in nodes:
        column(id)
    last = max(columns.values(), default=0)
    for id, (kind, _, _) in nodes.items():
        readers = [columns[end] for start, end, _ in edges if start == id]
        if kind == "table" and readers:
            columns[id] = max(columns[id], min(readers) - 1)
        elif kind == "sink":
            columns[id] = last
    return columns


def _places(nodes: Nodes, edges: Edges, upright: bool) -> dict[str, tuple[float, float]]:
    """Where nodes stand: in columns, or on a narrow screen down a staircase."""
    columns = _columns(nodes, edges)
    last = max([1, *columns.values()])
    if upright:
        order = _in_turn(nodes, edges)
        return {id: (columns[id] / last, 1 - (row + 0.5) / len(order)) for row, id in enumerate(order)}
    places: dict[str, tuple[float, float]] = {}
    for column in set(columns.values()):
        members = [id for id in nodes if columns[id] == column]
        places |= {id: (column / last, 1 - (row + 0.5) / len(members)) for row, id in enumerate(members)}
    return places


def _in_turn(nodes: Nodes, edges: Edges) -> list[str]:
    """All nodes, each followed by those that it feeds."""
    order: list[str] = []

    def visit(id: str) -> None:
        if id not in order:
            order.append(id)
            for start, end, _ in edges:
                if start == id:
                    visit(end)

    for id in [*(id for id, node in nodes.items() if node[0] == "log"), *nodes]:
        visit(id)
    return order


def options(snapshot: Snapshot, upright: bool) -> dict[str, Any]:
    """The same for ECharts. A line is the thicker the more flows along it."""
    nodes, edges = parts(snapshot)
    places = _places(nodes, edges, upright)
    wide = 148 if upright else 172
    if upright:  # there is no room beside the lines
        for id, (kind, name, _) in nodes.items():
            if id.startswith("stream ") and name in snapshot.streams:
                nodes[id] = (kind, name, f"{rate(snapshot.streams[name].rate)} events")
    box = {"type": "value", "min": 0, "max": 1, "show": False}
    side = wide // 2 + 8
    data = [
        {"id": id, "name": id, "value": list(places[id]), "itemStyle": {"color": _COLORS[kind]},
         "label": {"formatter": f"{{a|{_short(name, wide // 8)}}}\n{{b|{_short(note, wide // 6)}}}"}}
        for id, (kind, name, note) in nodes.items()
    ]  # fmt: skip
    links = [
        {"source": start, "target": end,
         "label": {"show": not upright and not _is_lookup(nodes, start, end), "formatter": rate(speed)},
         "lineStyle": {"width": round(1.5 + 0.7 * log10(1 + speed), 1),
                       "type": "dashed" if _is_lookup(nodes, start, end) else "solid"}}
        for start, end, speed in edges
    ]  # fmt: skip
    flow = {
        "type": "graph", "coordinateSystem": "cartesian2d", "symbol": _box(wide, 52), "symbolSize": [wide, 52],
        "silent": True, "data": data, "edges": links, "edgeSymbol": ["none", "none"],
        "label": {
            "show": True, "color": "#fff", "rich": {
                "a": {"fontWeight": 600, "fontSize": 14, "lineHeight": 20, "color": "#fff"},
                "b": {"fontSize": 11, "lineHeight": 15, "color": "rgba(255,255,255,0.85)"},
            },
        },
        "lineStyle": {"color": "#5eada5", "opacity": 0.75, "curveness": 0},
        "edgeLabel": {"color": SOFT, "fontSize": 12, "fontWeight": 600, "verticalAlign": "bottom"},
    }  # fmt: skip
    return framed(
        grid={"left": side, "right": side, "top": 8, "bottom": 8}, xAxis=dict(box), yAxis=dict(box),
        legend={"show": False}, tooltip={"show": False}, series=[flow],
    )  # fmt: skip


def _is_lookup(nodes: Nodes, start: str, end: str) -> bool:
    """Whether an edge is to or from a table: no rows flow along it."""
    return "table" in (nodes[start][0], nodes[end][0])


def _box(wide: int, high: int, round: int = 9) -> str:
    """A box with round corners; the one of ECharts is stretched."""
    w, h, r = wide, high, round
    corners = ((w - r, 0, w, 0, w, r), (w, h - r, w, h, w - r, h), (r, h, 0, h, 0, h - r), (0, r, 0, 0, r, 0))
    return f"path://M{r},0 " + " ".join(f"L{a},{b} Q{c},{d} {e},{f}" for a, b, c, d, e, f in corners) + " Z"


def _short(text: str, most: int) -> str:
    text = text.replace("{", "(").replace("}", ")").replace("|", "/")
    return text if len(text) <= most else text[: most - 1] + "…"
