"""The alerts of an app as its store has them: how many keys fire, and the newest of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from penstock.dataflow.graph import AlertNode, Graph
from penstock.model.alert_processor import FIRING
from penstock.serve.askers import Askers, Question
from penstock.serve.lookup import Lookup
from penstock.serve.shown import as_json
from penstock.serve.views import ViewEntry
from penstock.store.tables import quoted

#: The most keys of an alert that are shown, and that are looked through where its view is in segments.
SHOWN: Final = 200
_MANY: Final = 10_000


@dataclass(frozen=True)
class AlertNow:
    """An alert: for how many keys it fires, and its keys, those that fire first, then the newest changes."""

    definition: AlertNode
    firing: int
    keys: Sequence[str]
    rows: Sequence[Mapping[str, Any]]

    def body(self) -> dict[str, Any]:
        """As the API answers it."""
        one = self.definition
        return {"name": one.name, "view": one.of, "when": one.when, "firing": self.firing, "rows": list(self.rows)}


async def read_alerts(askers: Askers, views: Mapping[str, ViewEntry], graph: Graph | None) -> list[AlertNow]:
    """All alerts of an app whose views are there."""
    known = [] if graph is None else [one for one in graph.alerts if one.name in views]
    return [await _read(askers, one, views[one.name]) for one in known]


async def _read(askers: Askers, alert: AlertNode, view: ViewEntry) -> AlertNow:
    columns = {name: kind for name, kind in view.columns.items() if name not in ("window_start", "window_end", "final")}
    if view.in_segments:
        (answer,) = await askers.own(Lookup(limit=_MANY).question(view))
        rows = as_json(view.columns, [row[: len(view.columns)] for row in answer.rows])
        rows.sort(key=lambda row: (row["state"] == FIRING, row["changed_at"]), reverse=True)
        firing = sum(row["state"] == FIRING for row in rows)
        shown = [{name: row[name] for name in columns} for row in rows[:SHOWN]]
        return AlertNow(alert, firing, list(view.keys), shown)
    names = ", ".join(map(quoted, columns))
    order = f"ORDER BY CASE WHEN state = '{FIRING}' THEN 0 ELSE 1 END, changed_at DESC LIMIT {SHOWN}"
    counted, answer = await askers.own(
        Question(f"SELECT count(*) FROM ({view.select}) r WHERE state = '{FIRING}'"),
        Question(f"SELECT {names} FROM ({view.select}) r {order}", (), SHOWN),
    )
    return AlertNow(alert, counted.rows[0][0], list(view.keys), as_json(columns, answer.rows))
