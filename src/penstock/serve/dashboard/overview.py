"""The app at one glance: its numbers, and the graph of its parts."""

from __future__ import annotations

import time

from nicegui import ui

from penstock.model.time import SECOND, Instant
from penstock.serve.dashboard import graph
from penstock.serve.dashboard.charts import Chart, axis, framed
from penstock.serve.dashboard.panel import Place, Tile, card
from penstock.serve.dashboard.snapshot import Snapshot
from penstock.serve.dashboard.words import number, rate, seconds
from penstock.store.base import LATE_EVENTS


class Overview:
    def __init__(self, place: Place) -> None:
        self._place = place
        with ui.element("div").classes("ps-tiles"):
            self._events = Tile("Events", "events")
            self._epochs = Tile("Epochs", "epochs")
            self._panes = Tile("Panes fired", "panes")
            self._fresh = Tile("Freshness", "freshness")
            self._lag = Tile("Watermark lag", "lag")
            self._complete = Tile("Completeness", "completeness")
            self._refused = Tile("Refused", "refused")
        self._calls = ui.label().classes("ps-long-calls").style("color: var(--q-warning)")
        with card("The app", "logs → streams → operators → views → sinks, events and panes a second"):
            self._graph = Chart("graph", svg=True)
        with card("Events by epoch"):
            self._chart = Chart("events-by-epoch", low=True)

    def draw(self, snapshot: Snapshot) -> None:
        epochs = [commit for commit in snapshot.commits if commit.kind == "epoch"]
        streams = snapshot.streams.values()
        self._events.draw(number(snapshot.events), rate(sum(stream.rate for stream in streams)))
        last = epochs[-1] if epochs else None
        spent = f"the last took {seconds(sum(last.parts.values()))}" if last else ""
        self._epochs.draw(number(1 + max((e.epoch or 0 for e in epochs), default=-1)), spent)
        self._panes.draw(number(snapshot.panes), rate(sum(view.rate for view in snapshot.views.values())))
        slowest = max(snapshot.freshness.views.values(), key=lambda delay: delay.median, default=None)
        if slowest is None:
            self._fresh.draw("–", "no events in the last minute")
        else:
            self._fresh.draw(seconds(slowest.median), f"from arrival to commit, 99 % within {seconds(slowest.high)}")
        marks = [stream.watermark for stream in streams if stream.watermark is not None]
        self._lag.draw(*lag(min(marks, default=None)))
        counted = [(e.read, e.read * (e.completeness or 0.0)) for e in epochs[-60:] if e.completeness is not None]
        total = sum(rows for rows, _ in counted)
        complete = f"{sum(part for _, part in counted) / total:.2f} %" if total else "–"
        self._complete.draw(complete, f"not late, of the last {len(counted)} epochs")
        late, pairs = snapshot.counted(LATE_EVENTS), snapshot.counted("late")
        kinds = [("duplicate", snapshot.counted("duplicate")), ("dead", snapshot.counted("dead"))]
        by_view = "" if late == pairs else f" ({number(pairs)} by view)"
        text = ", ".join([f"{number(late)} late{by_view}", *(f"{number(count)} {kind}" for kind, count in kinds)])
        self._refused.draw(number(late + sum(count for _, count in kinds)), text)
        self._calls.set_text("; ".join(call.text() for call in snapshot.long_calls))
        self._calls.set_visibility(bool(snapshot.long_calls))
        tall = graph.height(snapshot, self._place.narrow)
        self._graph.element.style(f"height: {tall}px")
        self._graph.draw(graph.options(snapshot, self._place.narrow))
        bars = {"type": "bar", "name": "events", "data": [e.rows for e in epochs[-120:]], "barMaxWidth": 14,
                "itemStyle": {"borderRadius": [3, 3, 0, 0]}}  # fmt: skip
        too_late = {"type": "bar", "name": "late", "data": [e.late for e in epochs[-120:]], "barMaxWidth": 14}
        names = axis("category", data=[str(e.number) for e in epochs[-120:]])
        self._chart.draw(framed(xAxis=names, yAxis=axis("value"), series=[bars, too_late]))

    def close(self) -> None:
        pass


def lag(mark: Instant | None) -> tuple[str, str]:
    """How far a watermark is from the clock, and on which side."""
    if mark is None:
        return "–", "behind the clock"
    behind = time.time() - mark / SECOND
    return seconds(abs(behind)), "behind the clock" if behind >= 0 else "ahead of the clock"
