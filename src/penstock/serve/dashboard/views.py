"""A view: its chart, its newest pane, and its rows."""

from __future__ import annotations

import time

from nicegui import ui
from nicegui.events import ValueChangeEventArguments

from penstock.serve.dashboard import shapes
from penstock.serve.dashboard.charts import Chart, Grid, column, numeric
from penstock.serve.dashboard.panel import Place, card, cells
from penstock.serve.dashboard.snapshot import Snapshot, TableNow, ViewNow
from penstock.serve.dashboard.words import clock, number, rate

#: How many rows the table has.
_ROWS = 500
#: Columns that need more room than others.
_WIDTHS = {"timestamp": 205, "string": 110}


class Views:
    def __init__(self, place: Place) -> None:
        self._place = place
        self._watched: str | None = None
        self._value: str | None = None
        with card(""):
            with ui.element("div").classes("ps-row"):
                self._select = ui.select([], label="View", on_change=self._chosen).props("outlined dense options-dense")
                self._select.classes("ps-select").style("min-width: 190px").props('data-mark="view"')
                self._values = ui.select([], label="Value", on_change=self._value_chosen)
                self._values.props("outlined dense options-dense").style("min-width: 140px")
                self._timing = ui.label("").classes("ps-badge").props('data-mark="timing"')
                self._pane = ui.label("").classes("ps-note")
            self._about = ui.label("").classes("ps-note")
            self._chart = Chart("view-chart")
        with card("Rows"):
            self._note = ui.label("").classes("ps-note")
            self._grid = Grid("view-rows")
        with ui.expansion("Definition", icon="code").classes("ps-card"):
            self._definition = ui.label("").classes("ps-code")

    def _chosen(self, event: ValueChangeEventArguments[str | None]) -> None:
        if event.value is None or event.value == self._watched:
            return
        self._place.board.watch(event.value, self._watched)
        self._place.view = self._watched = event.value
        self._value = None
        if self._place.board.last is not None:
            self.draw(self._place.board.last)

    def _value_chosen(self, event: ValueChangeEventArguments[str | None]) -> None:
        if event.value is not None and event.value != self._value:
            self._value = event.value
            if self._place.board.last is not None:
                self.draw(self._place.board.last)

    def draw(self, snapshot: Snapshot) -> None:
        names = list(snapshot.views)
        if names != self._select.options:
            timed = [name for name, view in snapshot.views.items() if view.in_time]
            wanted = self._place.view if self._place.view in names else next(iter([*timed, *names]), None)
            self._select.set_options(names, value=wanted)
        view = snapshot.views.get(self._watched or "")
        if view is None:
            return
        self._definition.set_text(view.definition)
        if self._value not in view.numbers:
            self._value = view.numbers[0] if view.numbers else None
        if self._values.options != view.numbers or self._values.value != self._value:
            self._values.set_options(view.numbers, value=self._value)
        table = snapshot.tables.get(view.name)
        if table is not None:
            self._draw_table(view, table)

    def _draw_table(self, view: ViewNow, table: TableNow) -> None:
        value, now = self._value or "", time.time_ns() // 1000
        drawn = shapes.chart(view, table.rows, value, now)
        palette = self._place.board.palette_of(view.name)
        self._chart.draw(shapes.options(drawn, value, palette, whole=view.is_whole(value)))
        keys = ", ".join(view.keys) or "all events"
        mark = f"watermark {clock(view.watermark)}" if view.watermark is not None else "no watermark"
        unfinished = {shapes.LINES: "dashed: not finished yet", shapes.HEAT: "pale: not finished yet"}
        facts = [f"by {keys}", drawn["kind"], mark, f"{rate(view.rate)} panes"]
        facts += [unfinished[drawn["kind"]]] if drawn.get("open") else []
        self._about.set_text(" · ".join(facts))
        pane = table.pane
        if pane is None:
            self._timing.set_text("no pane yet")
            self._pane.set_text("")
        else:
            word = pane.timing.replace("_", " ")
            self._timing.set_text(f"newest pane: {word}")
            self._timing.classes(replace=f"ps-badge {word.replace(' ', '-')}")
            self._pane.set_text(
                f"{pane.kind} {pane.key} · index {pane.index} · commit {pane.commit} · {clock(pane.at)}"
            )
        names = list(view.shown_columns)
        columns = [
            (numeric if name in view.numbers else column)(f"c{place}", name, minWidth=_WIDTHS.get(kind, 96))
            for place, (name, kind) in enumerate(view.shown_columns.items())
        ]
        rows = []
        for row in table.rows[:_ROWS]:
            key = [row[name] for name in view.keys]
            rows.append(cells(names, row, [*key, row["window_start"], row["window_end"]]))
        self._grid.draw(columns, rows)
        more = " and more" if table.more or len(table.rows) > _ROWS else ""
        self._note.set_text(f"{number(len(rows))} {'row' if len(rows) == 1 else 'rows'}{more}; click a title to sort")

    def close(self) -> None:
        self._place.board.watch(None, self._watched)
