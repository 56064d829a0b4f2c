"""Bar charts as SVG, with nothing but text and rectangles, so that the same numbers give the same file."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from bench.peers.pages import count
from bench.peers.results import Result, Spread

WIDTH, LEFT, RIGHT, BAR, GAP, HEAD = 860, 230, 150, 16, 6, 44
OURS, THEIRS, ONCE, INK, MUTED = "#2a6f97", "#b8c4cc", "#e0e4e7", "#1d2b33", "#5b6b75"


def all_of(results: Sequence[Result]) -> dict[str, str]:
    """The charts by name. Nexmark's many queries have one of their own, if they were measured."""
    nexmark = [result for result in results if result.workload.startswith("nexmark-")]
    others = [result for result in results if result not in nexmark]
    charts = {"throughput": throughput(others), "whole": whole(others)}
    return charts | {"nexmark": throughput(nexmark)} if nexmark else charts


def throughput(results: Iterable[Result]) -> str:
    """Events a second in steady state: a group of bars for each workload."""
    groups = []
    for result in results:
        bars = [(name, result.rate(name)) for name in result.measured() if name not in result.once]
        groups.append((result, [(name, spread) for name, spread in bars if spread is not None]))
    return draw(
        "Events a second in steady state (line: least to most)", groups, lambda value: f"{value / 1000:,.0f} k/s"
    )


def whole(results: Iterable[Result]) -> str:
    """Seconds from the command to the end of the long run, of those that had the same one."""
    groups = []
    for result in results:
        bars = [(name, result.seconds(name, result.sizes[1])) for name in result.measured()]
        groups.append((result, [(name, spread) for name, spread in bars if spread is not None]))
    return draw(
        "Seconds from the command to the end, start included: less is better", groups, lambda value: f"{value:.1f} s"
    )


def draw(title: str, groups, label) -> str:
    """The chart; each group has a scale of its own."""
    parts: list[str] = []
    top = 34
    for result, bars in groups:
        parts.append(text(12, top + 22, f"{result.title} · {count(result.sizes[1])}", weight="bold"))
        top += HEAD - 10
        most = max((spread.most for _, spread in bars), default=1.0)
        for name, spread in bars:
            colour = OURS if name == "penstock" else ONCE if name in result.once else THEIRS
            parts += bar(top, result.titles[name], spread, (WIDTH - LEFT - RIGHT) / most, colour, label(spread.median))
            top += BAR + GAP
        top += 10
    foot = top + 16
    dates = sorted({f"{result.date}, {', '.join(result.machine.values())}" for result, _ in groups})
    parts += [text(12, foot + 15 * place, line, colour=MUTED, size=11) for place, line in enumerate(dates)]
    height = foot + 15 * len(dates)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" '
            'font-family="sans-serif" font-size="13">',
            f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
            text(12, 24, title, weight="bold", size=15),
            *parts,
            "</svg>",
            "",
        ]
    )


def bar(top: int, title: str, spread: Spread, scale: float, colour: str, label: str) -> Sequence[str]:
    """One bar, with its name, its number, and a line from the least to the most."""
    middle, length = top + BAR / 2, spread.median * scale
    return [
        text(LEFT - 8, top + BAR - 4, title, anchor="end"),
        f'<rect x="{LEFT}" y="{top}" width="{length:.1f}" height="{BAR}" fill="{colour}"/>',
        f'<line x1="{LEFT + spread.least * scale:.1f}" x2="{LEFT + spread.most * scale:.1f}" y1="{middle}" '
        f'y2="{middle}" stroke="{INK}"/>',
        text(round(LEFT + spread.most * scale) + 8, top + BAR - 4, label),
    ]


def text(
    x: float,
    y: float,
    content: str,
    *,
    anchor: str = "start",
    weight: str = "normal",
    colour: str = INK,
    size: int = 13,
) -> str:
    return (
        f'<text x="{x}" y="{y}" text-anchor="{anchor}" font-weight="{weight}" font-size="{size}" fill="{colour}">'
        f"{escape(content)}</text>"
    )
