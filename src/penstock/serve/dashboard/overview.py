"""The app at a glance: its numbers, and the graph of its parts."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from nicegui import ui

from penstock.serve.dashboard import graph
from penstock.serve.dashboard.charts import Chart, Options, axis, counts, framed
from penstock.serve.dashboard.palette import Palette
from penstock.serve.dashboard.panel import Place, Tile, card
from penstock.serve.dashboard.snapshot import CommitNow, Snapshot, StreamNow
from penstock.serve.dashboard.style import LATE
from penstock.serve.dashboard.words import number, rate, seconds
from penstock.store.base import LATE_EVENTS

#: The number of epochs in the chart.
_SHOWN: Final = 120


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
            self._alerts = Tile("Alerts", "firing")
        self._calls = ui.label().classes("ps-long-calls").style("color: var(--q-warning)")
        with card("The app", "logs → streams → operators → views → sinks, events and panes a second"):
            self._graph = Chart("graph", svg=True)
        with card("Events by epoch", "each epoch reads one stream"):
            self._chart = Chart("events-by-epoch", low=True)

    def draw(self, snapshot: Snapshot) -> None:
        epochs = [commit for commit in snapshot.commits if commit.kind == "epoch"]
        streams = snapshot.streams.values()
        self._events.draw(number(snapshot.events), rate(sum(stream.rate for stream in streams)))
        last = epochs[-1] if epochs else None
        spent = f"the last took {seconds(sum(last.parts.values()))}" if last else ""
        self._epochs.draw(number(sum(stream.epochs for stream in streams)), spent)
        self._panes.draw(number(snapshot.panes), rate(sum(view.rate for view in snapshot.views.values())))
        slowest = max(snapshot.freshness.views.values(), key=lambda delay: delay.median, default=None)
        if slowest is None:
            self._fresh.draw("–", "no events in the last minute")
        else:
            self._fresh.draw(seconds(slowest.median), f"from arrival to commit, 99 % within {seconds(slowest.high)}")
        self._lag.draw(*lag(streams))
        counted = [(e.read, e.read * (e.completeness or 0.0)) for e in epochs[-60:] if e.completeness is not None]
        total = sum(rows for rows, _ in counted)
        complete = f"{sum(part for _, part in counted) / total:.2f} %" if total else "–"
        self._complete.draw(complete, f"not late, of the last {len(counted)} epochs")
        late, pairs = snapshot.counted(LATE_EVENTS), snapshot.counted("late")
        kinds = [("duplicate", snapshot.counted("duplicate")), ("dead", snapshot.counted("dead"))]
        by_view = "" if late == pairs else f" ({number(pairs)} by view)"
        text = ", ".join([f"{number(late)} late{by_view}", *(f"{number(count)} {kind}" for kind, count in kinds)])
        self._refused.draw(number(late + sum(count for _, count in kinds)), text)
        firing = {one.definition.name: one.firing for one in snapshot.alerts if one.firing}
        note = ", ".join(firing) if firing else f"none of {len(snapshot.alerts)} fires" if snapshot.alerts else "none"
        self._alerts.draw(number(sum(firing.values())), note)
        self._calls.set_text("; ".join(call.text() for call in snapshot.long_calls))
        self._calls.set_visibility(bool(snapshot.long_calls))
        tall = graph.height(snapshot, self._place.narrow)
        self._graph.element.style(f"height: {tall}px")
        self._graph.draw(graph.options(snapshot, self._place.narrow))
        self._chart.draw(events_by_epoch(epochs[-_SHOWN:], self._place.board.palette))

    def close(self) -> None:
        pass


def events_by_epoch(epochs: Sequence[CommitNow], palette: Palette) -> Options:
    """A bar for each epoch in the colour of its stream, and its late events beside it."""
    names = list(dict.fromkeys(epoch.stream for epoch in epochs))
    series: list[Options] = [
        {"type": "bar", "stack": "events", "name": name or "events", "barMaxWidth": 14, "color": palette.color(name),
         "data": [epoch.rows if epoch.stream == name else None for epoch in epochs],
         "itemStyle": {"borderRadius": [3, 3, 0, 0]}}
        for name in sorted(names)
    ]  # fmt: skip
    late = [epoch.late for epoch in epochs]
    series.append({"type": "bar", "name": "late", "data": late, "barMaxWidth": 14, "color": LATE})
    numbers = axis("category", data=[str(epoch.number) for epoch in epochs])
    return framed(xAxis=numbers, yAxis=counts(), series=series)


def lag(streams: Collection[StreamNow]) -> tuple[str, str]:
    """How far the watermark that is furthest behind is from the clock, on which side, and of which stream it is."""
    known = {stream.name: stream.lag for stream in streams if stream.lag is not None}
    if not known:
        return "–", "no watermark yet"
    name, behind = max(known.items(), key=lambda item: item[1])
    side = "behind the clock" if behind >= 0 else "ahead of the clock"
    return seconds(abs(behind)), side if len(known) == 1 else f"'{name}', {side}; others are less"
