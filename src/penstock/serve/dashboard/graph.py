"""The app as a graph: logs → streams → views → sinks, with live rates on the edges."""

from __future__ import annotations

from typing import Any, Final

from penstock.serve.dashboard.charts import framed
from penstock.serve.dashboard.snapshot import Snapshot
from penstock.serve.dashboard.style import SOFT
from penstock.serve.dashboard.words import number, rate

_COLORS: Final = {"log": "#475569", "stream": "#0e7490", "view": "#0f766e", "sink": "#7c3aed"}
_KINDS: Final = ("log", "stream", "view", "sink")


def parts(snapshot: Snapshot) -> tuple[dict[str, tuple[str, str, str]], list[tuple[str, str, float, str]]]:
    """The nodes by id, with kind, name and note; and the edges: from, to, how many a second, of what."""
    nodes: dict[str, tuple[str, str, str]] = {}
    edges: list[tuple[str, str, float, str]] = []
    for stream in snapshot.streams.values():
        log, own = f"log {stream.name}", f"stream {stream.name}"
        kind, _, rest = stream.log.partition("(")
        nodes[log] = ("log", kind or "log", rest.rstrip(")")[:24] or stream.name)
        behind = "" if not stream.behind else f", {number(stream.behind)} behind"
        nodes[own] = ("stream", stream.name, f"{number(stream.events)} events{behind}")
        edges.append((log, own, stream.rate, "events"))
    for view in snapshot.views.values():
        nodes[f"view {view.name}"] = ("view", view.name, "rests" if view.rests else f"{rate(view.rate)} panes")
        for name in view.streams:
            if name in snapshot.streams:
                edges.append((f"stream {name}", f"view {view.name}", snapshot.streams[name].rate, "events"))
    for sink in snapshot.sinks.values():
        behind = f"{number(sink.behind)} panes behind" if sink.behind else "has all panes"
        nodes[f"sink {sink.name}"] = ("sink", sink.name, behind)
        if sink.view is not None:
            edges.append((f"view {sink.view}", f"sink {sink.name}", snapshot.views[sink.view].rate, "panes"))
    return nodes, edges


def height(snapshot: Snapshot, upright: bool) -> int:
    """How many pixels the graph needs."""
    nodes, _ = parts(snapshot)
    counts = [sum(1 for kind, _, _ in nodes.values() if kind == wanted) for wanted in _KINDS]
    return 120 * max(1, sum(1 for count in counts if count)) if upright else max(220, 84 * max([1, *counts]))


def options(snapshot: Snapshot, upright: bool) -> dict[str, Any]:
    """For ECharts: columns from left to right, or on a narrow screen rows from top to bottom."""
    nodes, edges = parts(snapshot)
    kinds = [kind for kind in _KINDS if any(found == kind for found, _, _ in nodes.values())]
    places: dict[str, tuple[float, float]] = {}
    for column, kind in enumerate(kinds):
        members = [id for id, node in nodes.items() if node[0] == kind]
        for place, id in enumerate(members):
            along, across = column / max(1, len(kinds) - 1), (place + 1) / (len(members) + 1)
            places[id] = (across, 1 - along) if upright else (along, 1 - across)
    most = max([1, *(sum(1 for node in nodes.values() if node[0] == kind) for kind in kinds)])
    wide = max(70, min(150, 330 // most)) if upright else 168
    box = {"type": "value", "min": 0, "max": 1, "show": False}
    margin = (
        {"left": 60, "right": 60, "top": 40, "bottom": 40}
        if upright
        else {"left": 95, "right": 95, "top": 8, "bottom": 8}
    )
    return framed(
        grid=margin, xAxis=dict(box), yAxis=dict(box), legend={"show": False}, tooltip={"show": False},
        series=[
            {
                "type": "graph", "coordinateSystem": "cartesian2d", "symbol": "roundRect", "symbolSize": [wide, 52], "z": 3,
                "silent": True,
                "data": [
                    {"id": id, "name": id, "value": list(places[id]), "itemStyle": {"color": _COLORS[kind]},
                     "label": {"formatter": f"{{a|{_short(name, wide)}}}\n{{b|{_short(note, wide + 30)}}}"}}
                    for id, (kind, name, note) in nodes.items()
                ],
                "label": {
                    "show": True, "color": "#fff", "rich": {
                        "a": {"fontWeight": 600, "fontSize": 14, "lineHeight": 20, "color": "#fff"},
                        "b": {"fontSize": 11, "lineHeight": 15, "color": "rgba(255,255,255,0.85)"},
                    },
                },
                "links": [], "edges": [
                    {"source": start, "target": end, "label": {"show": True, "formatter": f"{rate(speed)}"}}
                    for start, end, speed, _ in edges
                ],
                "edgeSymbol": ["none", "arrow"], "edgeSymbolSize": 8,
                "lineStyle": {"color": SOFT, "width": 1.5, "opacity": 0.7, "curveness": 0},
                "edgeLabel": {"color": SOFT, "fontSize": 12, "fontWeight": 600, "verticalAlign": "bottom"},
            },
            {
                "type": "lines", "coordinateSystem": "cartesian2d", "z": 2, "silent": True,
                "lineStyle": {"opacity": 0}, "effect": {
                    "show": True, "period": 2.5, "symbol": "circle", "symbolSize": 5, "color": "#2dd4bf", "trailLength": 0.15,
                },
                "data": [
                    {"coords": [list(places[start]), list(places[end])]} for start, end, speed, _ in edges if speed > 0
                ],
            },
        ],
    )  # fmt: skip


def _short(text: str, wide: int) -> str:
    most = wide // 8
    text = text.replace("{", "(").replace("}", ")").replace("|", "/")
    return text if len(text) <= most else text[: most - 1] + "…"
