"""Draws the graph of a dataflow as SVG: layers from left to right, a frame around each group, tables dashed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import mean
from typing import Final
from xml.sax.saxutils import escape

from penstock.dataflow.graph import Edge, Graph, Node

#: Pixels: of a box, between boxes, and around a group.
_WIDE, _HIGH, _ACROSS, _DOWN, _MARGIN = 190, 54, 170, 22, 26
_COLORS: Final = {
    "source": "#0e7490", "table": "#64748b", "join": "#b45309", "processor": "#b45309", "pattern": "#b45309",
    "alert": "#be123c", "derived": "#4338ca", "view": "#0f766e", "sink": "#7c3aed",
}  # fmt: skip
_STYLE: Final = (
    "text{font-family:system-ui,sans-serif;fill:#0f172a}.kind{font-size:11px;fill:#475569}"
    ".name{font-size:14px;font-weight:600}.fact,.steps{font-size:10px;fill:#475569}.group{font-size:11px;fill:#94a3b8}"
    ".steps{paint-order:stroke;stroke:#f8fafc;stroke-width:4px}"
    "path{fill:none;stroke:#94a3b8;stroke-width:1.5}"
)
#: Times that the nodes of a layer are sorted by their neighbours.
_SWEEPS: Final = 4


@dataclass
class _Band:
    """The nodes of a group, in layers. A layer also has a slot for each edge that passes through it."""

    layers: dict[int, list[str]] = field(default_factory=dict)

    @property
    def slots(self) -> int:
        return max(map(len, self.layers.values()))


def draw(graph: Graph) -> str:
    """The picture of a graph."""
    columns = _columns(graph)
    bands, routes = _bands(graph, columns)
    places: dict[str, tuple[float, float]] = {}
    frames: list[str] = []
    width = 2 * _MARGIN + (1 + max(columns.values(), default=0)) * (_WIDE + _ACROSS) - _ACROSS
    top = float(_MARGIN)
    for group, band in bands.items():
        height = band.slots * (_HIGH + _DOWN) + _DOWN
        for column, slots in band.layers.items():
            first = top + (height - len(slots) * (_HIGH + _DOWN) + _DOWN) / 2
            places |= {
                slot: (_MARGIN + column * (_WIDE + _ACROSS), first + row * (_HIGH + _DOWN))
                for row, slot in enumerate(slots)
            }
        if group:
            frames.append(_frame(group, top, width, height))
        top += height + _MARGIN
    lines = [_line(graph, edge, route, places) for edge, route in routes.items()]
    boxes = [_box(node, *places[node.id]) for node in graph.ordered]
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{top:.0f}" '
        f'viewBox="0 0 {width} {top:.0f}" role="img"><title>dataflow of {escape(graph.app)}</title>'
        f'<style>{_STYLE}</style><rect width="100%" height="100%" fill="#fff"/>'
    )
    return "\n".join([head, *frames, *lines, *boxes, "</svg>\n"])


def _columns(graph: Graph) -> dict[str, int]:
    """The layer of each node. A table stands just before the first node that reads it."""
    columns = dict(graph.levels)
    for node in graph.nodes:
        readers = [columns[edge.end] for edge in graph.edges if edge.start == node.id]
        if node.kind == "table" and readers:
            columns[node.id] = max(columns[node.id], min(readers) - 1)
    return columns


def _bands(graph: Graph, columns: Mapping[str, int]) -> tuple[dict[int, _Band], dict[Edge, list[str]]]:
    """The nodes of each group by layer, and the slots that each edge passes through."""
    bands: dict[int, _Band] = {}
    for node in graph.ordered:
        bands.setdefault(node.group, _Band()).layers.setdefault(columns[node.id], []).append(node.id)
    routes: dict[Edge, list[str]] = {}
    for number, edge in enumerate(graph.edges):
        band = bands[graph.by_id[edge.end].group]
        between = range(columns[edge.start] + 1, columns[edge.end])
        passed = [f"{number} {column}" for column in between]
        for column, slot in zip(between, passed, strict=True):
            band.layers.setdefault(column, []).append(slot)
        routes[edge] = [edge.start, *passed, edge.end]
    pairs = [pair for route in routes.values() for pair in pairwise(route)]
    for band in bands.values():
        _sort(band, pairs)
    return dict(sorted(bands.items())), routes


def _sort(band: _Band, pairs: Sequence[tuple[str, str]]) -> None:
    """Sorts each layer by the mean place of the neighbours, to and fro, so that few edges cross."""
    before: dict[str, list[str]] = {}
    after: dict[str, list[str]] = {}
    for start, end in pairs:
        before.setdefault(end, []).append(start)
        after.setdefault(start, []).append(end)
    for sweep in range(_SWEEPS):
        forth = sweep % 2 == 0
        for column in sorted(band.layers, reverse=not forth):
            near = before if forth else after
            rows = {slot: (row + 0.5) / len(slots) for slots in band.layers.values() for row, slot in enumerate(slots)}
            slots = band.layers[column]
            wanted = {
                slot: mean([rows[one] for one in near.get(slot, ()) if one in rows] or [rows[slot]]) for slot in slots
            }
            band.layers[column] = sorted(slots, key=lambda slot: wanted[slot])


def _frame(group: int, top: float, width: float, height: float) -> str:
    return (
        f'<rect x="{_MARGIN / 2}" y="{top:.0f}" width="{width - _MARGIN}" height="{height:.0f}" rx="10" '
        f'fill="#f8fafc" stroke="#cbd5e1"/><text class="group" x="{_MARGIN}" y="{top + 14:.0f}">group {group}</text>'
    )


def _line(graph: Graph, edge: Edge, route: Sequence[str], places: Mapping[str, tuple[float, float]]) -> str:
    """An edge from the right side of its start to the left side of its end, with its steps."""
    x, y = places[route[0]]
    x, y = x + _WIDE, y + _HIGH / 2
    path, label = f"M{x:.0f},{y:.0f}", ""
    for slot in route[1:]:
        to, down = places[slot][0], places[slot][1] + _HIGH / 2
        middle = (x + to) / 2
        path += f" C{middle:.0f},{y:.0f} {middle:.0f},{down:.0f} {to:.0f},{down:.0f}"
        if slot in graph.by_id and edge.steps:
            text = _short(" → ".join(edge.steps), _ACROSS // 6)
            label = (
                f'<text class="steps" text-anchor="middle" x="{middle:.0f}" y="{(y + down) / 2 - 5:.0f}">{text}</text>'
            )
        x, y = to, down
        if slot not in graph.by_id:  # straight through the slot
            x += _WIDE
            path += f" L{x:.0f},{y:.0f}"
    dashed = ' stroke-dasharray="5 4"' if "table" in (graph.by_id[edge.start].kind, graph.by_id[edge.end].kind) else ""
    title = f"<title>{escape(' → '.join(edge.steps))}</title>" if edge.steps else ""
    return f'<g>{title}<path d="{path}"{dashed}/>{label}</g>'


def _box(node: Node, x: float, y: float) -> str:
    """A box with kind, name, and the first facts."""
    color = _COLORS[node.kind]
    dashed = ' stroke-dasharray="5 4"' if node.kind == "table" else ""
    facts = " · ".join(node.facts)
    return (
        f"<g><title>{escape(f'{node.kind} {node.name} · {facts}' if facts else f'{node.kind} {node.name}')}</title>"
        f'<rect x="{x:.0f}" y="{y:.0f}" width="{_WIDE}" height="{_HIGH}" rx="8" fill="#fff" stroke="{color}" '
        f'stroke-width="1.6"{dashed}/><text class="kind" x="{x + 10:.0f}" y="{y + 15:.0f}">{node.kind}</text>'
        f'<text class="name" x="{x + 10:.0f}" y="{y + 32:.0f}">{_short(node.name, _WIDE // 8)}</text>'
        f'<text class="fact" x="{x + 10:.0f}" y="{y + 46:.0f}">{_short(facts, _WIDE // 6)}</text></g>'
    )


def _short(text: str, most: int) -> str:
    return escape(text if len(text) <= most else f"{text[: most - 1]}…")
