"""What all charts have in common, and a chart and a table that are sent again only when they have changed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from nicegui import ui
from nicegui.events import GenericEventArguments

from penstock.serve.dashboard.style import COLORS, FAINT, SOFT

Options = dict[str, Any]
#: How narrow a column can be, and how wide a table on a phone, in pixels.
_LEAST: Final = 96
_PHONE: Final = 340


def axis(kind: str, **more: Any) -> Options:
    """An axis with quiet lines."""
    base: Options = {
        "type": kind,
        "axisLabel": {"color": SOFT, "hideOverlap": True},
        "axisLine": {"lineStyle": {"color": FAINT}},
        "axisTick": {"show": False},
        "splitLine": {"show": kind != "category", "lineStyle": {"color": FAINT}},
        "nameTextStyle": {"color": SOFT},
    }
    return base | more


def counts(**more: Any) -> Options:
    """An axis of whole numbers."""
    return axis("value", minInterval=1, **more)


def framed(**more: Any) -> Options:
    """A chart's options, on no ground of its own so that light and dark shine through."""
    several = len(more.get("series", ())) > 1
    base: Options = {
        "animationDuration": 300,
        "animationDurationUpdate": 300,
        "color": list(COLORS),
        "backgroundColor": "transparent",
        "textStyle": {"fontFamily": "system-ui, sans-serif"},
        "grid": {"left": 8, "right": 26, "top": 40 if several else 16, "bottom": 8, "containLabel": True},
        "legend": {"show": several, "type": "scroll", "top": 0, "textStyle": {"color": SOFT}, "icon": "roundRect",
                   "itemHeight": 8},
        "tooltip": {"trigger": "axis", "confine": True, "backgroundColor": "#1f2937", "borderWidth": 0,
                    "textStyle": {"color": "#f3f4f6", "fontSize": 12}},
    }  # fmt: skip
    return base | more


class Chart:
    """A chart on a page."""

    def __init__(self, mark: str, *, low: bool = False, svg: bool = False) -> None:
        self._options: Options = framed(series=[])
        self.element = ui.echart(dict(self._options), renderer="svg" if svg else "canvas")
        self.element.classes("ps-chart low" if low else "ps-chart").props(f'data-mark="{mark}"')

    def draw(self, options: Options) -> None:
        if options == self._options:
            return
        self._options = options
        self.element.options.clear()
        self.element.options.update(options)
        self.element.update()


class Grid:
    """A table whose columns can be sorted. What a person has sorted and scrolled to stays when rows change."""

    def __init__(
        self, mark: str, *, low: bool = False, on_row: Callable[[Mapping[str, Any]], None] | None = None
    ) -> None:
        self._columns: list[Options] = []
        self._rows: Sequence[Mapping[str, Any]] = []
        self._ready = False
        self.element = ui.aggrid(
            {
                "columnDefs": [], "rowData": [],
                "defaultColDef": {"sortable": True, "resizable": True, "minWidth": _LEAST},
                "animateRows": False, "suppressCellFocus": on_row is None, "rowHeight": 34, "headerHeight": 36,
                "autoSizeStrategy": {"type": "fitGridWidth"}, "enableCellTextSelection": True,
                "overlayNoRowsTemplate": "<span>nothing here</span>", ":getRowId": "(p) => String(p.data.__id)",
            },
            theme="quartz",
        )  # fmt: skip
        self.element.classes("ps-grid low" if low else "ps-grid").props(f'data-mark="{mark}"')
        self._swipe = ui.label("swipe the table sideways for more columns").classes("ps-note ps-swipe")
        self._swipe.props(f'data-mark="{mark}-swipe"').set_visibility(False)
        self.element.on("gridReady", self._on_ready, [])
        if on_row is not None:
            self.element.on("rowClicked", lambda event: on_row(_data(event)), ["data"])

    def draw(self, columns: list[Options], rows: Sequence[Mapping[str, Any]]) -> None:
        """Shows rows; each has its place under `__id`."""
        if columns != self._columns:
            self._columns = columns
            self._swipe.set_visibility(sum(one.get("minWidth", _LEAST) for one in columns) > _PHONE)
            self._send("columnDefs", columns)
            if self._ready:
                self.element.run_grid_method("sizeColumnsToFit")
        if rows != self._rows:
            self._rows = rows
            self._send("rowData", rows)

    def _send(self, name: str, value: Any) -> None:
        if self._ready:
            self.element.run_grid_method("setGridOption", name, value)

    def _on_ready(self) -> None:
        self._ready = True
        self._send("columnDefs", self._columns)
        self._send("rowData", self._rows)
        self.element.run_grid_method("sizeColumnsToFit")


def _data(event: GenericEventArguments) -> Mapping[str, Any]:
    data: Mapping[str, Any] = event.args.get("data") or {}
    return data


def column(name: str, title: str | None = None, **more: Any) -> Options:
    """A column of a table, numbers to the right."""
    return {"field": name, "headerName": title or name, **more}


def numeric(name: str, title: str | None = None, **more: Any) -> Options:
    shown = "(p) => typeof p.value === 'number' ? p.value.toLocaleString('en', {maximumFractionDigits: 4}) : p.value"
    return column(name, title, type="rightAligned", **{":valueFormatter": shown}, **more)
