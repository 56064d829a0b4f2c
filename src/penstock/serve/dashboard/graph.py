"""The app as a graph: logs → streams → views → sinks, with live rates on the edges."""

from __future__ import annotations

from math import log10
from typing import Any, Final, TypeAlias

from penstock.serve.dashboard.charts import framed
from penstock.serve.dashboard.snapshot import Snapshot
from penstock.serve.dashboard.style import SOFT
from penstock.serve.dashboard.words import number, rate

_COLORS: Final = {"log": "#475569", "stream": "#0e7490", "view": "#0f766e", "sink": "#7c3aed"}
_KINDS: Final = ("log", "stream", "view", "sink")
Nodes: TypeAlias = dict[str, tuple[str, str, str]]
Edges: TypeAlias = list[tuple[str, str, float]]


def parts(snapshot: Snapshot) -> tuple[Nodes, Edges]:
    """The nodes by id, with kind, name and note; and the edges: from, to, and how many a second."""
    nodes: Nodes = {}
    edges: Edges = []
    for stream in snapshot.streams.values():
        log, own = f"log {stream.name}", f"stream {stream.name}"
        kind, _, rest = stream.log.partition("(")
        nodes[log] = ("log", kind or "log", rest.rstrip(")")[:24] or stream.name)
        behind = "" if not stream.behind else f", {number(stream.behind)} behind"
        nodes[own] = ("stream", stream.name, f"{number(stream.events)} events{behind}")
        edges.append((log, own, stream.rate))
    for view in snapshot.views.values():
        nodes[f"view {view.name}"] = ("view", view.name, "rests" if view.rests else f"{rate(view.rate)} panes")
        for name in view.streams:
            if name in snapshot.streams:
                edges.append((f"stream {name}", f"view {view.name}", snapshot.streams[name].rate))
        for name in view.views:
            if name in snapshot.views:
                edges.append((f"view {name}", f"view {view.name}", snapshot.views[name].rate))
    for sink in snapshot.sinks.values():
        behind = f"{number(sink.behind)} panes behind" if sink.behind else "has all panes"
        nodes[f"sink {sink.name}"] = ("sink", sink.name, behind)
        if sink.view is not None:
            edges.append((f"view {sink.view}", f"sink {sink.name}", snapshot.views[sink.view].rate))
    return nodes, edges


def height(snapshot: Snapshot, upright: bool) -> int:
    """How many pixels the graph needs."""
    nodes, edges = parts(snapshot)
    if upright:
        return 30 + 74 * max(1, len(nodes))
    columns = list(_columns(nodes, edges).values())
    return max(220, 84 * max((columns.count(column) for column in columns), default=1))


def _columns(nodes: Nodes, edges: Edges) -> dict[str, int]:
    """In which column a node stands: kinds from left to right, a view after those that it reads."""
    below = {id: [start for start, end, _ in edges if end == id and nodes[start][0] == nodes[id][0]] for id in nodes}

    def level(id: str) -> int:
        return 1 + max(map(level, below[id]), default=-1)

    ranks = {id: (_KINDS.index(node[0]), level(id)) for id, node in nodes.items()}
    order = sorted(set(ranks.values()))
    return {id: order.index(rank) for id, rank in ranks.items()}


def _places(nodes: Nodes, edges: Edges, upright: bool) -> dict[str, tuple[float, float]]:
    """Where nodes stand: in columns, or on a narrow screen down a staircase."""
    columns = _columns(nodes, edges)
    last = max([1, *columns.values()])
    if upright:
        order = _in_turn(nodes, edges)
        return {id: (columns[id] / last, 1 - (row + 0.5) / len(order)) for row, id in enumerate(order)}
    found: dict[str, tuple[float, float]] = {}
    for column in set(columns.values()):
        members = [id for id in nodes if columns[id] == column]
        found |= {id: (column / last, 1 - (row + 0.5) / len(members)) for row, id in enumerate(members)}
    return found


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
        nodes |= {f"stream {s.name}": ("stream", s.name, f"{rate(s.rate)} events") for s in snapshot.streams.values()}
    box = {"type": "value", "min": 0, "max": 1, "show": False}
    side = wide // 2 + 8
    data = [
        {"id": id, "name": id, "value": list(places[id]), "itemStyle": {"color": _COLORS[kind]},
         "label": {"formatter": f"{{a|{_short(name, wide // 8)}}}\n{{b|{_short(note, wide // 6)}}}"}}
        for id, (kind, name, note) in nodes.items()
    ]  # fmt: skip
    links = [
        {"source": start, "target": end, "label": {"show": not upright, "formatter": rate(speed)},
         "lineStyle": {"width": round(1.5 + 0.7 * log10(1 + speed), 1)}}
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


def _box(wide: int, high: int, round: int = 9) -> str:
    """A box with round corners; the one of ECharts is stretched."""
    w, h, r = wide, high, round
    corners = ((w - r, 0, w, 0, w, r), (w, h - r, w, h, w - r, h), (r, h, 0, h, 0, h - r), (0, r, 0, 0, r, 0))
    return f"path://M{r},0 " + " ".join(f"L{a},{b} Q{c},{d} {e},{f}" for a, b, c, d, e, f in corners) + " Z"


def _short(text: str, most: int) -> str:
    text = text.replace("{", "(").replace("}", ")").replace("|", "/")
    return text if len(text) <= most else text[: most - 1] + "…"
