"""The chart that fits the shape of a view: lines over time, bars of keys, or keys by time as a heat map."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

from penstock.model.time import Instant
from penstock.serve.dashboard.palette import Palette
from penstock.serve.dashboard.snapshot import ViewNow
from penstock.serve.dashboard.style import FAINT, SOFT
from penstock.store.present import stored_time

LINES, BARS, HEAT, NONE = "lines over time", "bars", "heat map", "no numbers to draw"
#: Up to this number of keys are drawn as lines; more of them as a heat map of the largest.
_FEW: Final = 12
_TOP: Final = 24
#: How many windows are shown.
_WINDOWS: Final = 60

#: How a cell of a window looks that is not finished.
_PALE: Final = {"opacity": 0.45, "borderColor": SOFT, "borderWidth": 1, "borderType": "dashed"}

Row = Mapping[str, Any]


def shape(view: ViewNow, rows: Sequence[Row]) -> str:
    """Which chart fits a view with these rows."""
    if not view.numbers:
        return NONE
    if not view.in_time:
        return BARS
    return LINES if len(view.keys) <= 1 and len({_key(view, row) for row in rows}) <= _FEW else HEAT


def chart(view: ViewNow, rows: Sequence[Row], value: str, now: Instant) -> dict[str, Any]:
    """What is drawn: names on the axes, and series of numbers exactly as the rows have them.

    `open` are the starts of windows that are not finished: the watermark has not passed them, or without one the clock.
    """
    kind = shape(view, rows)
    if kind == BARS:
        return _bars(view, rows, value)
    if kind == NONE:
        return {"kind": NONE}
    starts = sorted({row["window_start"] for row in rows})[-_WINDOWS:]
    shown = set(starts)
    by_key: dict[str, dict[str, Any]] = {}
    for row in rows:
        if row["window_start"] in shown:
            by_key.setdefault(_key(view, row), {})[row["window_start"]] = _number(row[value])
    totals = {key: sum(v for v in values.values() if v is not None) for key, values in by_key.items()}
    keys = sorted(totals, key=lambda key: (-totals[key], key))[: _FEW if kind == LINES else _TOP]
    passed = stored_time(now if view.watermark is None else view.watermark).replace(" ", "T")
    unfinished = {row["window_start"] for row in rows if row["window_end"].removesuffix("Z") > passed}
    values = {key: by_key[key] for key in keys}
    return {"kind": kind, "starts": starts, "keys": keys, "values": values, "open": unfinished & shown}


def _bars(view: ViewNow, rows: Sequence[Row], value: str) -> dict[str, Any]:
    """The keys with the highest values; without keys each value is a bar."""
    if not view.keys and not view.has_windows:
        row = rows[0] if rows else {}
        return {"kind": BARS, "keys": view.numbers, "values": [_number(row.get(name)) for name in view.numbers]}
    known: dict[str, float | None] = {}
    for row in rows:  # the newest row of a key counts
        known.setdefault(_key(view, row), _number(row[value]))
    ranked = sorted(known.items(), key=lambda item: (item[1] is None, -(item[1] or 0), item[0]))[:_TOP]
    return {"kind": BARS, "keys": [key for key, _ in ranked], "values": [number for _, number in ranked]}


def _key(view: ViewNow, row: Row) -> str:
    if not view.keys:
        return "all"
    return " · ".join("∅" if row[name] is None else str(row[name]) for name in view.keys)


def _number(value: Any) -> float | None:
    """A number that a chart can draw; decimals of many digits come as text, and NaN is none."""
    if isinstance(value, bool) or value is None:
        return None
    try:
        number = float(value) if not isinstance(value, int) else value
    except (TypeError, ValueError):
        return None
    return number if number == number and abs(number) != float("inf") else None


def options(drawn: Mapping[str, Any], value: str, palette: Palette, whole: bool = False) -> dict[str, Any]:
    """The same for ECharts; `whole` where the values are whole numbers. What is not finished is dashed or pale."""
    from penstock.serve.dashboard.charts import axis, counts, framed

    values = counts if whole else partial(axis, "value")
    if drawn["kind"] == NONE:
        return framed(series=[])
    if drawn["kind"] == BARS:
        bar = {"type": "bar", "name": value, "data": drawn["values"], "barMaxWidth": 26,
               "itemStyle": {"borderRadius": [0, 5, 5, 0]}}  # fmt: skip
        names = axis("category", data=drawn["keys"], inverse=True)
        return framed(xAxis=values(), yAxis=names, series=[bar], legend={"show": False}, grid=_grid(8))
    if drawn["kind"] == LINES:
        palette.learn(sorted(drawn["keys"]))
        series = [line for key in drawn["keys"] for line in _lines(drawn, key, palette.color(key))]
        return framed(xAxis=axis("time"), yAxis=values(scale=True), series=series)
    cells = [
        [drawn["starts"].index(start), place, number]
        for place, key in enumerate(drawn["keys"])
        for start, number in drawn["values"][key].items()
        if number is not None
    ]
    unfinished = {place for place, start in enumerate(drawn["starts"]) if start in drawn["open"]}
    data = [{"value": cell, "itemStyle": _PALE} if cell[0] in unfinished else cell for cell in cells]
    windows = [f"{start[11:19]}{' …' if start in drawn['open'] else ''}" for start in drawn["starts"]]
    top = max((cell[2] for cell in cells), default=1)
    return framed(
        legend={"show": False},
        grid=_grid(52),
        xAxis=axis("category", data=windows),
        yAxis=axis("category", data=drawn["keys"], inverse=True),
        tooltip=framed()["tooltip"] | {"trigger": "item"},
        visualMap={
            "min": min(0, min((cell[2] for cell in cells), default=0)), "max": top or 1, "calculable": True,
            "orient": "horizontal", "left": "center", "bottom": 0, "itemWidth": 12, "textStyle": {"color": SOFT},
            "inRange": {"color": ["rgba(13,148,136,0.08)", "#5eead4", "#0d9488", "#6366f1", "#7c3aed"]},
        },
        series=[
            {"type": "heatmap", "name": value, "data": data, "itemStyle": {"borderColor": FAINT, "borderWidth": 1}}
        ],
    )  # fmt: skip


def _lines(drawn: Mapping[str, Any], key: str, color: str) -> list[dict[str, Any]]:
    """A key's line; where windows are not finished, from the last one that is, it is dashed."""
    points = [[start, drawn["values"][key].get(start)] for start in drawn["starts"]]
    base = {"type": "line", "name": key, "showSymbol": len(points) < 30, "symbolSize": 5, "color": color}
    done = [point for point in points if point[0] not in drawn["open"]]
    going_on = [*done[-1:], *(point for point in points if point[0] in drawn["open"])]
    if len(done) == len(points):
        return [{**base, "data": done}]
    dashed = {**base, "data": going_on, "lineStyle": {"type": "dashed"}, "symbol": "emptyCircle", "showSymbol": True}
    return [{**base, "data": done}, dashed] if done else [dashed]


def _grid(bottom: int) -> dict[str, Any]:
    return {"left": 8, "right": 24, "top": 12, "bottom": bottom, "containLabel": True}
