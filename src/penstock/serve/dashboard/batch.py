"""Generations, audits, and what the history holds."""

from __future__ import annotations

from nicegui import ui

from penstock.serve.dashboard.charts import Grid, column, numeric
from penstock.serve.dashboard.panel import Place, card, cells
from penstock.serve.dashboard.snapshot import Snapshot
from penstock.serve.dashboard.words import clock, seconds, size


class Batch:
    def __init__(self, place: Place) -> None:
        with card("Generations", "each a view's state as one definition computed it, from one commit on"):
            self._generations = Grid("generations", low=True)
        with card("Audits", "the live view against its recomputation from the history"):
            self._audits = Grid("audits", low=True)
        with card("History", "every event that was kept"):
            self._files = Grid("history", low=True)
            self._note = ui.label("").classes("ps-note")

    def draw(self, snapshot: Snapshot) -> None:
        columns = [column("c0", "view"), numeric("c1", "generation", maxWidth=130), column("c2", "kind")]
        columns += [numeric("c3", "computed up to"), numeric("c4", "since commit"), column("c5", "at", minWidth=190)]
        rows = [
            cells(["view", "number", "kind", "point", "commit", "now"], {**one, "now": clock(one["now"])},
                  f"{one['view']} {one['number']}")
            for one in snapshot.generations
        ]  # fmt: skip
        self._generations.draw(columns, rows)
        columns = [column("c0", "at", minWidth=190), column("c1", "view"), column("c2", "finding", minWidth=200)]
        columns += [numeric("c3", "rows"), numeric("c4", "events"), numeric("c5", "as of commit"), column("c6", "took")]
        names = ["at", "view", "finding", "rows", "events", "commit", "seconds"]
        self._audits.draw(
            columns,
            [
                cells(names, {**one, "at": clock(one["at"]), "finding": finding(one), "seconds": took}, n)
                for n, one in enumerate(snapshot.audits)
                for took in [seconds(one["seconds"])]
            ],
        )  # fmt: skip
        columns = [column("c0", "stream"), column("c1", "kind"), numeric("c2", "files"), numeric("c3", "rows")]
        columns += [column("c4", "size"), numeric("c5", "up to commit")]
        names = ["stream", "kind", "files", "rows", "bytes", "commit"]
        self._files.draw(
            columns,
            [
                cells(names, {**one, "bytes": size(one["bytes"])}, f"{one['stream']} {one['kind']}")
                for one in snapshot.files
            ],
        )

    def close(self) -> None:
        pass


def finding(audit: object) -> str:
    """The result of an audit as text."""
    assert isinstance(audit, dict)
    if audit["unable"]:
        return f"unable: {audit['unable']}"
    if audit["problems"] and audit["problems"] != "[]":
        return str(audit["problems"])
    return f"{audit['differences']} rows differ" if audit["differences"] else "equal"
