"""Late, duplicate and dead-letter rows, to open and read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from nicegui import ui

from penstock.serve.dashboard.charts import Grid, column, numeric
from penstock.serve.dashboard.panel import Place, Tile, card, cells
from penstock.serve.dashboard.snapshot import Snapshot
from penstock.serve.dashboard.words import clock, number

_KINDS = {"all": "All", "late": "Late", "duplicate": "Duplicate", "dead": "Dead letters"}


class Refused:
    def __init__(self, place: Place) -> None:
        self._rows: Mapping[str, Mapping[str, Any]] = {}
        self._last: Snapshot | None = None
        with ui.element("div").classes("ps-tiles"):
            self._tiles = {kind: Tile(title, f"count-{kind}") for kind, title in _KINDS.items() if kind != "all"}
        with card("The newest of them", "click a row to read it"):
            self._kind = ui.toggle(_KINDS, value="all", on_change=self._again).props(
                "no-caps unelevated dense padding='4px 12px'"
            )
            self._kind.props('data-mark="refused-kind"')
            self._grid = Grid("refused-rows", on_row=self._open)
        with ui.dialog() as self._dialog, ui.element("section").classes("ps-card").props('data-mark="letter"'):
            self._title = ui.label("").classes("ps-title")
            self._about = ui.label("").classes("ps-note")
            self._reason = ui.label("").classes("ps-error")
            self._text = ui.label("").classes("ps-code")
            ui.button("Close", on_click=self._dialog.close).props("flat no-caps").style("align-self: flex-end")

    def _again(self) -> None:
        if self._last is not None:
            self.draw(self._last)

    def draw(self, snapshot: Snapshot) -> None:
        self._last = snapshot
        for kind, tile in self._tiles.items():
            tile.draw(number(snapshot.counted(kind)), "since the app began")
        chosen = [row for row in snapshot.refused if self._kind.value in ("all", row["kind"])]
        self._rows = {str(row["id"]): row for row in snapshot.refused}
        names = ["kind", "stream", "view", "commit", "at", "reason", "row"]
        columns = [column("c0", "kind", maxWidth=110), column("c1", "stream"), column("c2", "view")]
        columns += [numeric("c3", "commit", maxWidth=110), column("c4", "event time", minWidth=190)]
        columns += [column("c5", "reason", minWidth=220), column("c6", "row", minWidth=260)]
        shown = [{**row, "at": clock(row["at"])} for row in chosen]
        self._grid.draw(columns, [cells(names, row, row["id"]) for row in shown])

    def _open(self, clicked: Mapping[str, Any]) -> None:
        row = self._rows.get(str(clicked.get("__id")))
        if row is None:
            return
        title = {"dead": "A dead letter", "late": "A late row", "duplicate": "A duplicate"}.get(
            row["kind"], row["kind"]
        )
        view = f" for the view '{row['view']}'" if row["view"] else ""
        self._title.set_text(f"{title} of '{row['stream']}'{view}")
        place = f"partition {row['partition']}, offset {row['offset']}"
        self._about.set_text(f"{place} · commit {row['commit']} · event time {clock(row['at'])}")
        self._reason.set_text(row["reason"] or "")
        self._text.set_text(_read(row["row"]))
        self._dialog.open()

    def close(self) -> None:
        self._dialog.close()


def _read(text: str | None) -> str:
    """The row, one field a line, if it is JSON."""
    if text is None:
        return "the row was erased"
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    except ValueError:
        return text
