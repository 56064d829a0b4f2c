"""Views over views in a commit: each takes its step after those that it reads, by what they show in the same commit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import polars as pl

from penstock.kernel.admit import AdmittedRows, admit
from penstock.kernel.cascade import change_rows
from penstock.kernel.elements import elements
from penstock.kernel.plan import Plan
from penstock.kernel.reduce import combine, reduce
from penstock.model.changes import Changes
from penstock.model.stream import Flow
from penstock.model.time import Instant
from penstock.runtime.epoch.job import OperatorInput
from penstock.runtime.epoch.wire import as_json, late_reason, refusals


@dataclass
class Cascade:
    """The panes of one commit so far, for the views above them, and the rows that those rejected."""

    number: int  # of the commit
    now: Instant
    shown: dict[str, pl.DataFrame] = field(default_factory=dict)  # changes, by the view that shows them
    refused: dict[str, list[pl.DataFrame]] = field(default_factory=dict)

    def show(self, name: str, plan: Plan, panes: pl.DataFrame) -> None:
        """Panes that a view shows to those above it."""
        self.shown[name] = change_rows(plan, panes, self.number)

    def deltas(self, name: str, plan: Plan, before: Instant, first: Mapping[str, pl.DataFrame]) -> list[pl.DataFrame]:
        """The deltas of a view from those below it: their panes of this commit, after those at `first`."""
        frames = []
        for source in plan.view.input.sources:
            if not isinstance(source, Changes):
                continue
            admitted = self._admitted(source, plan, first)
            if admitted is not None:
                reduced = reduce(plan, source.name, admitted.rows, before)
                self._refuse("late", source, name, reduced.late.with_columns(late_reason(plan).alias("__reason")))
                self._refuse("dead", source, name, pl.concat([admitted.dead, reduced.dead]))
                frames.append(reduced.deltas)
        return [combine(plan, frames)] if frames else []

    def rows(self, into: OperatorInput, first: Mapping[str, pl.DataFrame]) -> list[pl.DataFrame]:
        """The same for an input of an operator: rows instead of deltas."""
        frames, plan = [], into.plan
        for branch in plan.branches:
            source = branch.source
            if not isinstance(source, Changes):
                continue
            admitted = self._admitted(source, plan, first)
            if admitted is not None:
                made = elements(plan, branch, admitted.rows)
                self._refuse("dead", source, into.stream, pl.concat([admitted.dead, made.dead]))
                frames.append(into.rows(branch, made.good))
        return frames

    def _admitted(self, source: Changes, plan: Plan, first: Mapping[str, pl.DataFrame]) -> AdmittedRows | None:
        """The changes of a view for one that reads them: what it shows now, after those at `first`; None if none."""
        parts = [frames[source.name] for frames in (first, self.shown) if source.name in frames]
        rows = pl.concat(parts) if parts else None
        if rows is None or not rows.height:
            return None
        placed = rows.with_columns(pl.lit(plan.sources[source.name], pl.Int32).alias("__source"))
        return admit(source, placed, self.now)

    def late_in_merge(self, name: str, plan: Plan, late: pl.DataFrame) -> None:
        """Rows that only the merge could detect as late."""
        with_reason = late.with_columns(late_reason(plan).alias("__reason"))
        for source in plan.view.input.sources:
            if isinstance(source, Changes):
                self._refuse("late", source, name, with_reason.filter(pl.col("__source") == plan.sources[source.name]))

    def _refuse(self, kind: str, source: Changes, view: str, reasons: pl.DataFrame) -> None:
        if reasons.height:
            rows = self.shown[source.name]
            rows = rows.with_columns(as_json(rows, [n for n in source.schema.names if n != "final"]).alias("row"))
            rejected = reasons.join(rows.select("__partition", "__offset", "row"), on=["__partition", "__offset"])
            self.refused.setdefault(kind, []).append(refusals(source.name, view, rejected))


def levels(flows: Mapping[str, Sequence[Flow]]) -> dict[str, int]:
    """How many views and operators lie one above the other below each of them. `flows` are what each reads."""
    level_of: dict[str, int] = {}

    def level(name: str) -> int:
        if name not in level_of:
            below = [source.name for flow in flows[name] for source in flow.sources if source.name in flows]
            level_of[name] = 1 + max(map(level, below), default=-1)
        return level_of[name]

    for name in flows:
        level(name)
    return level_of
