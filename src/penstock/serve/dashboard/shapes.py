"""The chart that fits the shape of a view: lines over time, bars of keys, or keys by time as a heat map."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from penstock.serve.dashboard.snapshot import ViewNow
from penstock.serve.dashboard.style import FAINT, SOFT

LINES, BARS, HEAT, NONE = "lines over time", "bars", "heat map", "no numbers to draw"
#: So many keys are lines; more of them are a heat map of the largest.
_FEW: Final = 12
_TOP: Final = 24
#: So many windows are shown.
_WINDOWS: Final = 60

Row = Mapping[str, Any]


def shape(view: ViewNow, rows: Sequence[Row]) -> str:
    """Which chart fits a view with these rows."""
    if not view.numbers:
        return NONE
    if not view.in_time:
        return BARS
    return LINES if len(view.keys) <= 1 and len({_key(view, row) for row in rows}) <= _FEW else HEAT


def chart(view: ViewNow, rows: Sequence[Row], value: str) -> dict[str, Any]:
    """What is drawn: names on the axes, and series of numbers exactly as the rows have them."""
    kind = shape(view, rows)
    if kind == BARS:
        return _bars(view, rows, value)
    if kind == NONE:
        return {"kind": NONE}
    starts = sorted({row["window_start"] for row in rows})[-_WINDOWS:]
    shown = set(starts)
    found: dict[str, dict[str, Any]] = {}
    for row in rows:
        if row["window_start"] in shown:
            found.setdefault(_key(view, row), {})[row["window_start"]] = _number(row[value])
    totals = {key: sum(v for v in values.values() if v is not None) for key, values in found.items()}
    keys = sorted(totals, key=lambda key: (-totals[key], key))[: _FEW if kind == LINES else _TOP]
    return {"kind": kind, "starts": starts, "keys": keys, "values": {key: found[key] for key in keys}}


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
        found = float(value) if not isinstance(value, int) else value
    except (TypeError, ValueError):
        return None
    return found if found == found and abs(found) != float("inf") else None


def options(drawn: Mapping[str, Any], value: str) -> dict[str, Any]:
    """The same for ECharts."""
    from penstock.serve.dashboard.charts import axis, framed

    if drawn["kind"] == NONE:
        return framed(series=[])
    if drawn["kind"] == BARS:
        bar = {"type": "bar", "name": value, "data": drawn["values"], "barMaxWidth": 26,
               "itemStyle": {"borderRadius": [0, 5, 5, 0]}}  # fmt: skip
        names = axis("category", data=drawn["keys"], inverse=True)
        return framed(xAxis=axis("value"), yAxis=names, series=[bar], legend={"show": False}, grid=_grid(8))
    if drawn["kind"] == LINES:
        series = [
            {"type": "line", "name": key, "showSymbol": len(drawn["starts"]) < 30, "symbolSize": 5,
             "data": [[start, drawn["values"][key].get(start)] for start in drawn["starts"]]}
            for key in drawn["keys"]
        ]  # fmt: skip
        return framed(xAxis=axis("time"), yAxis=axis("value", scale=True), series=series)
    cells = [
        [drawn["starts"].index(start), place, number]
        for place, key in enumerate(drawn["keys"])
        for start, number in drawn["values"][key].items()
        if number is not None
    ]
    top = max((cell[2] for cell in cells), default=1)
    return framed(
        legend={"show": False},
        grid=_grid(52),
        xAxis=axis("category", data=[start[11:19] for start in drawn["starts"]]),
        yAxis=axis("category", data=drawn["keys"], inverse=True),
        tooltip=framed()["tooltip"] | {"trigger": "item"},
        visualMap={
            "min": min(0, min((cell[2] for cell in cells), default=0)), "max": top or 1, "calculable": True,
            "orient": "horizontal", "left": "center", "bottom": 0, "itemWidth": 12, "textStyle": {"color": SOFT},
            "inRange": {"color": ["rgba(13,148,136,0.08)", "#5eead4", "#0d9488", "#6366f1", "#7c3aed"]},
        },
        series=[
            {"type": "heatmap", "name": value, "data": cells, "itemStyle": {"borderColor": FAINT, "borderWidth": 1}}
        ],
    )  # fmt: skip


def _grid(bottom: int) -> dict[str, Any]:
    return {"left": 8, "right": 24, "top": 12, "bottom": bottom, "containLabel": True}
