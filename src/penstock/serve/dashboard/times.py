"""Watermark, lag and completeness over time."""

from __future__ import annotations

from nicegui import ui

from penstock.serve.dashboard.charts import Chart, Grid, axis, column, framed, numeric
from penstock.serve.dashboard.panel import Place, card, cells
from penstock.serve.dashboard.snapshot import Snapshot
from penstock.serve.dashboard.style import SOFT
from penstock.serve.dashboard.words import clock
from penstock.store.base import LATE_EVENTS


class Times:
    def __init__(self, place: Place) -> None:
        self._palette = place.board.palette
        with card(
            "Freshness", "seconds from the arrival of events at their source to the commit: median, and 99 of 100"
        ):
            self._delays = Chart("freshness-chart", low=True)
            self._fresh = Grid("freshness-figures", low=True)
        with card("Watermark", "event time against the time of the commit; the dashed line is no lag at all"):
            self._marks = Chart("watermark")
        with ui.element("div").classes("ps-two"):
            with card(
                "Lag", "seconds from the watermark to the commit; below zero the watermark is ahead of the clock"
            ):
                self._lag = Chart("lag-chart", low=True)
            with card("Completeness", "percent of an epoch's events that were not late"):
                self._complete = Chart("completeness-chart", low=True)
        with card("Streams"):
            self._grid = Grid("streams", low=True)

    def draw(self, snapshot: Snapshot) -> None:
        self._draw_freshness(snapshot)
        sources = list(dict.fromkeys(mark.sources for mark in snapshot.marks))
        paths = {name: [mark for mark in snapshot.marks if mark.sources == name] for name in sources}
        now = sorted({mark.at // 1000 for mark in snapshot.marks})
        ideal = {"type": "line", "name": "now", "data": [[at, at] for at in now], "showSymbol": False,
                 "lineStyle": {"type": "dashed", "width": 1.5, "color": SOFT},
                 "itemStyle": {"color": SOFT}}  # fmt: skip
        lines = [
            self._line(name, [[m.at // 1000, m.watermark // 1000] for m in marks]) for name, marks in paths.items()
        ]
        when = axis("time", scale=True)
        self._marks.draw(framed(xAxis=when, yAxis=axis("time", scale=True), series=[*lines, ideal]))
        lags = [self._line(n, [[m.at // 1000, round(m.lag, 3)] for m in marks]) for n, marks in paths.items()]
        self._lag.draw(framed(xAxis=when, yAxis=axis("value"), series=lags))
        epochs = [commit for commit in snapshot.commits if commit.kind == "epoch"]
        names = list(dict.fromkeys(commit.stream for commit in epochs))
        whole = [
            self._line(n or "all", [[c.at // 1000, c.completeness] for c in epochs if c.stream == n and c.rows])
            for n in names
        ]
        self._complete.draw(framed(xAxis=when, yAxis=axis("value", scale=True, max=100), series=whole))
        columns = [column("c0", "stream"), column("c1", "log"), column("c2", "watermark", minWidth=190)]
        columns += [numeric("c3", "lag, s"), numeric("c4", "epochs")]
        titles = ("events", "late", "late, by view", "duplicate", "dead", "complete, %", "behind")
        columns += [numeric(f"c{n + 5}", name) for n, name in enumerate(titles)]
        rows = []
        for stream in snapshot.streams.values():
            counts = {
                kind: stream.counters.get(kind, 0) for kind in ("events", LATE_EVENTS, "late", "duplicate", "dead")
            }
            lag, complete = (None if one is None else round(one, 2) for one in (stream.lag, stream.completeness))
            row = {"name": stream.name, "log": stream.log, "mark": clock(stream.watermark), "lag": lag}
            row |= {"epochs": stream.epochs, **counts, "complete": complete, "behind": stream.behind}
            rows.append(cells(list(row), row, stream.name))
        self._grid.draw(columns, rows)

    def _draw_freshness(self, snapshot: Snapshot) -> None:
        """By commit over time, and in the last minute for each view and sink."""
        series = []
        for name in dict.fromkeys(one.stream for one in snapshot.delays):
            own = [one for one in snapshot.delays if one.stream == name]
            color = self._palette.color(name)
            series.append(_line(f"{name}, median", color, [[one.at // 1000, round(one.median, 3)] for one in own]))
            slow = _line(f"{name}, 99 %", color, [[one.at // 1000, round(one.high, 3)] for one in own])
            series.append({**slow, "lineStyle": {"type": "dashed"}})
        self._delays.draw(framed(xAxis=axis("time", scale=True), yAxis=axis("value"), series=series))
        fresh = snapshot.freshness
        columns = [
            column("c0", "of"),
            column("c1", "name"),
            numeric("c2", "median, s"),
            numeric("c3", "99 % within, s"),
        ]
        columns.append(numeric("c4", "events, last minute"))
        rows = []
        for what, delays in (("view", fresh.views), ("sink", fresh.sinks)):
            for name, one in delays.items():
                figures = {"median": round(one.median, 3), "high": round(one.high, 3), "events": one.events}
                row = {"what": what, "name": name, **figures}
                rows.append(cells(list(row), row, f"{what} {name}"))
        self._fresh.draw(columns, rows)

    def _line(self, name: str, data: list[list[object]]) -> dict[str, object]:
        """The line of a stream, or of views that read several, in the colour that it always has."""
        return _line(name, self._palette.color(name), data)

    def close(self) -> None:
        pass


def _line(name: str, color: str, data: list[list[object]]) -> dict[str, object]:
    return {"type": "line", "name": name, "color": color, "data": data, "showSymbol": len(data) < 40, "symbolSize": 4}
