"""Exact answers of the past, for views whose aggregates are cheap live and exact in batch.

The past is reduced by a wider plan, which has the exact aggregates beside the view's own. Where its windows are whole,
each gets its answer, and the exact partials are dropped: the view goes on with the sketch and the answer.
"""

from __future__ import annotations

from dataclasses import replace

import polars as pl

from penstock.kernel.aggregates.paired import ExactnessColumns, PairedColumns
from penstock.kernel.fire import pane_schema, shows
from penstock.kernel.plan import Plan, nothing, shown
from penstock.kernel.step import Change
from penstock.model.aggregates import Paired
from penstock.model.aggregates.paired import ANSWERED, LIVE, PAST


def widened(plan: Plan) -> Plan:
    """The plan with the exact aggregates beside its own; the same plan where it has no pairs."""
    beside = [(_beside(plan, name), one.batch) for name, one in plan.view.aggregates if isinstance(one, Paired)]
    if not beside:
        return plan
    view = replace(plan.view, aggregates=(*plan.view.aggregates, *beside))
    return Plan(view, plan.written, plan.closed)


def has_pairs(plan: Plan) -> bool:
    """Whether an aggregate of the view is another one in batch."""
    return any(isinstance(one, Paired) for _, one in plan.view.aggregates)


def _beside(plan: Plan, name: str) -> str:
    """The name of the exact aggregate of a pair, which no other has."""
    taken = {each.lower() for each in (*plan.keys, *dict(plan.view.aggregates), *plan.view.values)}
    candidate = f"{name}_in_batch"
    while candidate.lower() in taken:
        candidate += "_"
    return candidate


def as_past(plan: Plan, deltas: pl.DataFrame, where: pl.Expr | None = None) -> pl.DataFrame:
    """Deltas of rows for which an answer will be given; `where` selects them."""
    if not has_pairs(plan):
        return deltas
    past = pl.lit(True) if where is None else where
    return deltas.with_columns(
        pl.when(past & (pl.col(name) == LIVE)).then(pl.lit(PAST, pl.Int8)).otherwise(name).alias(name)
        for name in _states(plan)
    )


def answered(wide: Plan, plan: Plan, change: Change) -> Change:
    """What the wider plan's step gave as the view's own: windows of nothing but the past have their answers."""
    if wide is plan:
        return change
    return replace(
        change,
        live=_answered(wide, plan, change.live),
        closed=_answered(wide, plan, change.closed),
        panes=nothing(pane_schema(plan)),
        ghosts=change.ghosts.select(*plan.ghost_schema),
    )


def _answered(wide: Plan, plan: Plan, rows: pl.DataFrame) -> pl.DataFrame:
    exact = {part.name: part for part in wide.columns}
    for part in plan.columns:
        if isinstance(part, PairedColumns):
            answers = exact[_beside(plan, part.name)].present(rows).alias(part.answer)
            rows = rows.with_columns(pl.when(pl.col(part.state) == PAST).then(answers).alias(part.answer))
    after = [_became(name, ANSWERED) for name in _states(plan)]
    after += [_became(part.state, LIVE) for part in plan.pending if isinstance(part, (PairedColumns, ExactnessColumns))]
    rows = rows.with_columns(after).select(*plan.state_schema)
    if plan.retracting:  # a pane has shown all of the past, with the answers
        values, _ = shows(plan, rows, plan.columns)
        stands = pl.col("__shown").is_not_null() & pl.any_horizontal(pl.col(_states(plan)) == ANSWERED)
        rows = rows.with_columns(
            pl.when(stands).then(value).otherwise(shown(value.name)).alias(shown(value.name)) for value in values
        )
    return rows


def _became(name: str, state: int) -> pl.Expr:
    return pl.when(pl.col(name) == PAST).then(pl.lit(state, pl.Int8)).otherwise(name).alias(name)


def _states(plan: Plan) -> list[str]:
    return [part.state for part in plan.columns if isinstance(part, (PairedColumns, ExactnessColumns))]
