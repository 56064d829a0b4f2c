"""A view's panes as rows for the views above it, on columns."""

from __future__ import annotations

from typing import Protocol

import polars as pl

from penstock.kernel.expressions import dtype
from penstock.kernel.fire import pane_schema, shows
from penstock.kernel.offsets import change_offset
from penstock.kernel.plan import END, START, Plan, nothing, shown
from penstock.model.changes import CHANGE
from penstock.model.windows import CountBased, Global


class Whole(Protocol):
    """A view's state that can be read as a whole."""

    def table(self) -> pl.DataFrame: ...
    def open_rows(self, limit: int) -> pl.DataFrame | None: ...
    def ghosts_of(self, keys: pl.DataFrame) -> pl.DataFrame: ...


def change_rows(plan: Plan, panes: pl.DataFrame, commit: int) -> pl.DataFrame:
    """Panes as rows of the view's changes, at their places in the commit of this number."""
    columns = [pl.col(name) for name in plan.keys]
    if not isinstance(plan.view.windows, Global):
        kind = dtype("bigint" if isinstance(plan.view.windows, CountBased) else "timestamp")
        columns += [pl.col(START).cast(kind).alias("window_start"), pl.col(END).cast(kind).alias("window_end")]
    sign = pl.when("__insert").then(1).otherwise(-1).cast(pl.Int32)
    return panes.select(
        *columns,
        *plan.values,
        pl.col("__final").alias("final"),
        sign.alias(CHANGE),
        pl.lit(0, pl.Int32).alias("__partition"),
        (pl.int_range(pl.len(), dtype=pl.Int64) + change_offset(commit)).alias("__offset"),
    )


def standing(plan: Plan, state: Whole) -> pl.DataFrame:
    """The current panes: what a reader of all changes so far would hold. For a new view over this one."""
    frames = [nothing(pane_schema(plan)), _finished(plan, state.table())]
    live = state.open_rows(1 << 62)
    if live is not None and plan.retracting:
        frames.append(_shown(plan, live))
        if plan.merging and live.height:
            frames.append(_shown(plan, state.ghosts_of(live.select(plan.keys).unique())))
    elif live is not None and not plan.discarding:
        frames.append(_presented(plan, live.filter(pl.col("__index") > 0), final=False))
    return pl.concat([frame.select(*pane_schema(plan)) for frame in frames]).sort([END, START, *plan.keys])


def _finished(plan: Plan, rows: pl.DataFrame) -> pl.DataFrame:
    return _presented(plan, rows.filter("final").drop("final"), final=True)


def _presented(plan: Plan, rows: pl.DataFrame, final: bool) -> pl.DataFrame:
    if plan.view.signed:
        rows = rows.filter(pl.col("__rows") != 0)
    answers, holds = shows(plan, rows, plan.columns)
    panes = rows.select(*plan.keys, START, END).with_columns(answers)
    return _pane(panes if holds is None else panes.filter(holds), final)


def _shown(plan: Plan, rows: pl.DataFrame) -> pl.DataFrame:
    values = [pl.col(shown(name)).alias(name) for name in plan.values]
    stands = rows.filter(pl.col("__shown").is_not_null())
    return _pane(stands.select(*plan.keys, START, END, *values), final=False)


def _pane(rows: pl.DataFrame, final: bool) -> pl.DataFrame:
    return rows.with_columns(
        pl.lit(True).alias("__insert"),
        pl.lit("on time").alias("__timing"),
        pl.lit(0, pl.Int64).alias("__index"),
        pl.lit(final).alias("__final"),
    )
