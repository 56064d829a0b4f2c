"""Alerts: which keys fire, since when, and what was resolved last."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.model.alert_processor import BOUNDS
from penstock.serve.alerts import AlertNow
from penstock.serve.dashboard.charts import Grid, column, numeric
from penstock.serve.dashboard.panel import Place, card, cells
from penstock.serve.dashboard.snapshot import Snapshot
from penstock.serve.dashboard.words import number

_BAD = "(p) => p.value === 'firing' ? {color: 'var(--bad)', fontWeight: 600} : null"
_OWN = ("state", "since", "changed_at", *BOUNDS)


class Alerts:
    def __init__(self, place: Place) -> None:
        with card("Alerts", "conditions on the rows of views: app.alert(view, when=…, to=…), or CREATE ALERT"):
            self._alerts = Grid("alerts", low=True)
        with card("Keys", "those that fire first, then the newest changes"):
            self._keys = Grid("alert-keys")

    def draw(self, snapshot: Snapshot) -> None:
        columns = [column("c0", "alert"), column("c1", "view"), column("c2", "when", minWidth=220)]
        columns.append(numeric("c3", "keys that fire"))
        rows = [
            cells(["name", "of", "when", "firing"], {**vars(one.definition), "firing": one.firing}, one.definition.name)
            for one in snapshot.alerts
        ]
        self._alerts.draw(columns, rows)
        columns = [
            column("c0", "alert"),
            column("c1", "key"),
            column("c2", "state", maxWidth=120, **{":cellStyle": _BAD}),
        ]
        columns += [column("c3", "since", minWidth=210), column("c4", "changed", minWidth=210)]
        columns.append(column("c5", "values", minWidth=240))
        self._keys.draw(columns, key_rows(snapshot.alerts))

    def close(self) -> None:
        pass


def key_rows(alerts: Sequence[AlertNow]) -> list[dict[str, Any]]:
    """The keys of all alerts as rows of a table, those that fire first."""
    rows = []
    for one in alerts:
        for row in one.rows:
            key = " · ".join("∅" if row[name] is None else str(row[name]) for name in one.keys) or "all"
            rest = {name: value for name, value in row.items() if name not in (*one.keys, *_OWN) and value is not None}
            values = ", ".join(f"{name} {_shown(value)}" for name, value in rest.items())
            shown = {
                "alert": one.definition.name,
                "key": key,
                **{name: row[name] for name in _OWN[:3]},
                "values": values,
            }
            rows.append(cells(list(shown), shown, [one.definition.name, *(row[name] for name in one.keys)]))
    return sorted(rows, key=lambda row: row["c2"] != "firing")


def _shown(value: Any) -> str:
    return number(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else str(value)
