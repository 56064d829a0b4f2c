"""Late, duplicate and dead-letter rows: to open and read, to retry, and to take along as a file."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any, Final

from nicegui import ui

from penstock.errors import PenstockError
from penstock.serve.askers import Question
from penstock.serve.dashboard.charts import Grid, column, numeric
from penstock.serve.dashboard.panel import Place, Tile, card, cells
from penstock.serve.dashboard.snapshot import Snapshot
from penstock.serve.dashboard.words import clock, number
from penstock.serve.shown import iso
from penstock.store.base import LATE_EVENTS
from penstock.store.present import stored_time

_KINDS = {"all": "All", "late": "Late", "duplicate": "Duplicate", "dead": "Dead letters"}
#: The most rows that a file gets.
_EXPORTED: Final = 10_000
_COLUMNS: Final = ("kind", "stream", "view", "commit", "partition", "offset", "at", "reason", "row")
_EXPORT: Final = f"""SELECT kind, stream, view, "commit", partition, "offset", at, reason, row FROM __refused
    WHERE kind = ?1 OR ?1 = 'all' ORDER BY rowid DESC LIMIT {_EXPORTED}"""


class RefusedPanel:
    def __init__(self, place: Place) -> None:
        self._place = place
        self._rows: Mapping[str, Mapping[str, Any]] = {}
        self._last: Snapshot | None = None
        self._opened: Mapping[str, Any] = {}
        with ui.element("div").classes("ps-tiles"):
            self._tiles = {kind: Tile(title, f"count-{kind}") for kind, title in _KINDS.items() if kind != "all"}
        with card("The newest of them", "click a row to read it"):
            with ui.element("div").classes("ps-row"):
                self._kind = ui.toggle(_KINDS, value="all", on_change=self._again).props(
                    "no-caps unelevated dense padding='4px 12px'"
                )
                self._kind.props('data-mark="refused-kind"')
                ui.button("Export", icon="download", on_click=self._export).props('flat no-caps data-mark="export"')
            self._grid = Grid("refused-rows", on_row=self._open)
        with ui.dialog() as self._dialog, ui.element("section").classes("ps-card").props('data-mark="letter"'):
            self._title = ui.label("").classes("ps-title")
            self._about = ui.label("").classes("ps-note")
            self._reason = ui.label("").classes("ps-error")
            self._text = ui.label("").classes("ps-code")
            self._outcome = ui.label("").classes("ps-note").props('data-mark="retry-outcome" role="status"')
            with ui.element("div").classes("ps-row").style("align-self: flex-end"):
                self._one = ui.button("Retry", icon="replay", on_click=lambda: self._retry(of_one=True))
                self._one.props('flat no-caps data-mark="retry"')
                self._all = ui.button("", on_click=lambda: self._retry(of_one=False))
                self._all.props('flat no-caps data-mark="retry-all"')
                ui.button("Close", on_click=self._dialog.close).props("flat no-caps")

    def _again(self) -> None:
        if self._last is not None:
            self.draw(self._last)

    def draw(self, snapshot: Snapshot) -> None:
        self._last = snapshot
        late, pairs = snapshot.counted(LATE_EVENTS), snapshot.counted("late")
        self._tiles["late"].draw(number(late), "events" if late == pairs else f"events; {number(pairs)} by view")
        for kind in ("duplicate", "dead"):
            self._tiles[kind].draw(number(snapshot.counted(kind)), "since the app began")
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
        self._opened = row
        title = {"dead": "A dead letter", "late": "A late row", "duplicate": "A duplicate"}.get(
            row["kind"], row["kind"]
        )
        view = f" for the view '{row['view']}'" if row["view"] else ""
        self._title.set_text(f"{title} of '{row['stream']}'{view}")
        place = f"partition {row['partition']}, offset {row['offset']}"
        self._about.set_text(f"{place} · commit {row['commit']} · event time {clock(row['at'])}")
        self._reason.set_text(row["reason"] or "")
        self._text.set_text(_read(row["row"]))
        self._outcome.set_text("")
        can_retry = row["kind"] == "dead" and self._place.service.host.retry is not None and self._place.may_change()
        self._one.set_visibility(can_retry and row["partition"] is not None)
        self._all.set_visibility(can_retry)
        self._all.set_text(f"Retry all of '{failed_at(row)}'")
        self._dialog.open()

    async def _retry(self, of_one: bool) -> None:
        """Retries the open letter, or all that failed at the same place."""
        row, retry = self._opened, self._place.service.host.retry
        if retry is None or not self._place.may_change():  # the token may have been removed meanwhile
            self._outcome.set_text("a token with the scope admin is needed")
            return
        self._outcome.set_text("retrying …")
        try:
            outcome = await asyncio.to_thread(retry, failed_at(row), condition(row) if of_one else None)
        except PenstockError as error:
            self._outcome.set_text(" ".join(part for part in (error.message, error.hint) if part))
            return
        self._outcome.set_text(outcome_text(*outcome))

    async def _export(self) -> None:
        """Has the browser save the newest rows of the chosen kind, a line of JSON each."""
        (rows,) = await self._place.service.askers.own(Question(_EXPORT, [self._kind.value], _EXPORTED))
        name = {"all": "refused", "dead": "dead-letters"}.get(self._kind.value, self._kind.value)
        ui.download.content(lines(rows.rows), f"{name}.jsonl", "application/x-ndjson")

    def close(self) -> None:
        self._dialog.close()


def failed_at(row: Mapping[str, Any]) -> str:
    """Where a row failed: the operator, view or sink, or else the stream."""
    return str(row["view"] or row["stream"])


def condition(row: Mapping[str, Any]) -> str:
    """What is true of this dead letter only.

    >>> condition({"commit": 7, "partition": 0, "offset": 12})
    'commit = 7 AND partition = 0 AND offset = 12'
    """
    return f"commit = {row['commit']} AND partition = {row['partition']} AND offset = {row['offset']}"


def outcome_text(rows: int, dead: int, late: int) -> str:
    """The result of retried dead letters as text.

    >>> outcome_text(3, 1, 0), outcome_text(0, 0, 0)
    ('3 retried: 2 succeeded, 1 failed again', 'nothing to retry: they were retried already, or are not kept')
    """
    if not rows:
        return "nothing to retry: they were retried already, or are not kept"
    parts = [f"{number(rows - dead - late)} succeeded", f"{number(dead)} failed again"]
    return f"{number(rows)} retried: {', '.join(parts)}{f', {number(late)} are late by now' if late else ''}"


def lines(rows: list[list[Any]]) -> bytes:
    """Refused rows as lines of JSON. A row that is JSON stays what it is; any other is text."""
    texts = []
    for row in rows:
        line = dict(zip(_COLUMNS, row, strict=True))
        line["at"] = None if line["at"] is None else iso(stored_time(line["at"]))
        line["row"] = _json(line["row"])
        texts.append(json.dumps(line, ensure_ascii=False) + "\n")
    return "".join(texts).encode("utf-8", "replace")


def _json(text: str | None) -> Any:
    try:
        return None if text is None else json.loads(text)
    except ValueError:
        return text


def _read(text: str | None) -> str:
    """The row, one field a line, if it is JSON."""
    if text is None:
        return "the row was erased"
    row = _json(text)
    return row if isinstance(row, str) else json.dumps(row, indent=2, ensure_ascii=False)
