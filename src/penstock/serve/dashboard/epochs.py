"""Epochs as a timeline, with where the time went."""

from __future__ import annotations

from nicegui import ui

from penstock.serve.dashboard.charts import Chart, Grid, axis, column, counts, framed, numeric
from penstock.serve.dashboard.panel import Place, card, cells
from penstock.serve.dashboard.snapshot import Snapshot, folded
from penstock.serve.dashboard.style import SOFT
from penstock.serve.dashboard.words import clock

#: How many epochs the timeline shows.
_SHOWN = 80
#: The choice of all streams.
_ALL = "all streams"


class Epochs:
    def __init__(self, place: Place) -> None:
        self._last: Snapshot | None = None
        with card("Where the time went", "seconds of each epoch, by its parts, and its events"):
            self._stream = ui.toggle([_ALL], value=_ALL, on_change=self._again)
            self._stream.props("no-caps unelevated dense padding='4px 12px' data-mark=\"epochs-stream\"")
            self._stream.set_visibility(False)
            self._chart = Chart("epochs-chart")
        with card("Commits", "ticks one after the other are one row"):
            self._grid = Grid("commits")

    def _again(self) -> None:
        if self._last is not None:
            self.draw(self._last)

    def draw(self, snapshot: Snapshot) -> None:
        self._last = snapshot
        names = sorted({commit.stream for commit in snapshot.commits if commit.kind == "epoch"})
        if self._stream.options != [_ALL, *names]:
            self._stream.set_options([_ALL, *names], value=self._stream.value if self._stream.value in names else _ALL)
        self._stream.set_visibility(len(names) > 1)
        chosen = self._stream.value
        epochs = [one for one in snapshot.commits if one.kind == "epoch" and chosen in (_ALL, one.stream)][-_SHOWN:]
        parts = list(dict.fromkeys(part for epoch in epochs for part in epoch.parts))
        bars = [
            {"type": "bar", "stack": "seconds", "name": part, "barMaxWidth": 18,
             "data": [round(epoch.parts.get(part, 0.0), 4) for epoch in epochs]}
            for part in parts
        ]  # fmt: skip
        rows = {"type": "line", "name": "events", "yAxisIndex": 1, "data": [epoch.rows for epoch in epochs],
                "showSymbol": False, "itemStyle": {"color": SOFT},
                "lineStyle": {"width": 1.5, "color": SOFT}}  # fmt: skip
        numbers = axis("category", data=[str(epoch.number) for epoch in epochs])
        right = counts(name="events", splitLine={"show": False})
        self._chart.draw(framed(xAxis=numbers, yAxis=[axis("value", name="s"), right], series=[*bars, rows]))
        columns = [numeric("c0", "commit", maxWidth=110), column("c1", "kind", maxWidth=100), column("c2", "stream")]
        columns += [numeric("c3", "epoch", maxWidth=110), column("c4", "at", minWidth=190)]
        titles = ["events", "late", "late, by view", "panes", *(f"{part}, s" for part in parts)]
        columns += [numeric(f"c{place + 5}", title) for place, title in enumerate(titles)]
        table = []
        for one, count in reversed(folded(snapshot.commits)):
            kind = one.kind if count == 1 else f"{count} ticks"
            values = {"number": one.number, "kind": kind, "stream": one.stream, "epoch": one.epoch,
                    "at": clock(one.at), "rows": one.rows, "late": one.late, "pairs": one.late_pairs,
                    "panes": one.panes}  # fmt: skip
            values |= {f"part {part}": round(one.parts[part], 4) if part in one.parts else None for part in parts}
            table.append(cells(list(values), values, one.number))
        self._grid.draw(columns, table)

    def close(self) -> None:
        pass
