"""Views over views in a commit: each takes its step after those that it reads, by what they show in the same commit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import polars as pl

from penstock.kernel.admit import admit
from penstock.kernel.cascade import change_rows
from penstock.kernel.plan import Plan
from penstock.kernel.reduce import combine, reduce
from penstock.model.changes import Changes, below
from penstock.model.time import Instant
from penstock.model.view import View
from penstock.runtime.epoch.wire import as_json, late_reason, refusals


@dataclass
class Cascade:
    """What the views of one commit have shown so far, for the views above them, and what those refused."""

    number: int  # of the commit
    now: Instant
    shown: dict[str, pl.DataFrame] = field(default_factory=dict)  # changes, by the view that shows them
    refused: dict[str, list[pl.DataFrame]] = field(default_factory=dict)

    def show(self, name: str, plan: Plan, panes: pl.DataFrame) -> None:
        """Panes that a view shows to those above it."""
        self.shown[name] = change_rows(plan, panes, self.number)

    def deltas(self, name: str, plan: Plan, before: Instant, first: Mapping[str, pl.DataFrame]) -> list[pl.DataFrame]:
        """What a view takes from those below it: what they show now, after what it finds there at `first`."""
        found = []
        for source in plan.view.input.sources:
            if not isinstance(source, Changes):
                continue
            parts = [frames[source.name] for frames in (first, self.shown) if source.name in frames]
            rows = pl.concat(parts) if parts else None
            if rows is not None and rows.height:
                placed = rows.with_columns(pl.lit(plan.sources[source.name], pl.Int32).alias("__source"))
                admitted = admit(source, placed, self.now)
                reduced = reduce(plan, source.name, admitted.rows, before)
                self._refuse("late", source, name, reduced.late.with_columns(late_reason(plan).alias("__reason")))
                self._refuse("dead", source, name, pl.concat([admitted.dead, reduced.dead]))
                found.append(reduced.deltas)
        return [combine(plan, found)] if found else []

    def late_in_merge(self, name: str, plan: Plan, late: pl.DataFrame) -> None:
        """Rows that only the merge could tell to be late."""
        told = late.with_columns(late_reason(plan).alias("__reason"))
        for source in plan.view.input.sources:
            if isinstance(source, Changes):
                self._refuse("late", source, name, told.filter(pl.col("__source") == plan.sources[source.name]))

    def _refuse(self, kind: str, source: Changes, view: str, told: pl.DataFrame) -> None:
        if told.height:
            rows = self.shown[source.name]
            rows = rows.with_columns(as_json(rows, [n for n in source.schema.names if n != "final"]).alias("row"))
            found = told.join(rows.select("__partition", "__offset", "row"), on=["__partition", "__offset"])
            self.refused.setdefault(kind, []).append(refusals(source.name, view, found))


def levels(views: Mapping[str, View]) -> dict[str, int]:
    """How many views lie one above the other below each of them."""
    found: dict[str, int] = {}

    def level(name: str) -> int:
        if name not in found:
            found[name] = 1 + max((level(other) for other in below(views[name].input) if other in views), default=-1)
        return found[name]

    for name in views:
        level(name)
    return found
