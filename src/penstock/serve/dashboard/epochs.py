"""Epochs as a timeline, with where the time went."""

from __future__ import annotations

from penstock.serve.dashboard.charts import Chart, Grid, axis, column, framed, numeric
from penstock.serve.dashboard.panel import Place, card, cells
from penstock.serve.dashboard.snapshot import Snapshot
from penstock.serve.dashboard.style import SOFT
from penstock.serve.dashboard.words import clock

#: So many epochs stand in the timeline.
_SHOWN = 80


class Epochs:
    def __init__(self, place: Place) -> None:
        with card("Where the time went", "seconds of each epoch, by its parts, and its events"):
            self._chart = Chart("epochs-chart")
        with card("Commits"):
            self._grid = Grid("commits")

    def draw(self, snapshot: Snapshot) -> None:
        epochs = [commit for commit in snapshot.commits if commit.kind == "epoch"][-_SHOWN:]
        parts = list(dict.fromkeys(part for epoch in epochs for part in epoch.parts))
        bars = [
            {"type": "bar", "stack": "seconds", "name": part, "barMaxWidth": 18,
             "data": [round(epoch.parts.get(part, 0.0), 4) for epoch in epochs]}
            for part in parts
        ]  # fmt: skip
        rows = {"type": "line", "name": "events", "yAxisIndex": 1, "data": [epoch.rows for epoch in epochs],
                "showSymbol": False, "itemStyle": {"color": SOFT},
                "lineStyle": {"width": 1.5, "color": SOFT}}  # fmt: skip
        names = axis("category", data=[str(epoch.number) for epoch in epochs])
        right = axis("value", name="events", splitLine={"show": False})
        self._chart.draw(framed(xAxis=names, yAxis=[axis("value", name="s"), right], series=[*bars, rows]))
        columns = [numeric("c0", "commit", maxWidth=110), column("c1", "kind", maxWidth=100), column("c2", "stream")]
        columns += [numeric("c3", "epoch", maxWidth=110), column("c4", "at", minWidth=190)]
        titles = ["events", "late", "late, by view", "panes", *(f"{part}, s" for part in parts)]
        columns += [numeric(f"c{place + 5}", title) for place, title in enumerate(titles)]
        table = []
        for one in reversed(snapshot.commits):
            told = {"number": one.number, "kind": one.kind, "stream": one.stream, "epoch": one.epoch,
                    "at": clock(one.at), "rows": one.rows, "late": one.late, "pairs": one.late_pairs,
                    "panes": one.panes}  # fmt: skip
            told |= {f"part {part}": round(one.parts[part], 4) if part in one.parts else None for part in parts}
            table.append(cells(list(told), told, one.number))
        self._grid.draw(columns, table)

    def close(self) -> None:
        pass
