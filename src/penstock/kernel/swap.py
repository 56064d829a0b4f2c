"""What a swap of generations does to panes: firing state goes along, and what was shown and is no more is corrected.

Value and firing are apart. A window that both generations have keeps the firing state of the old one, so that nothing
fires twice. Where the value that stands for a window changes there is one correction: the standing pane is taken back
and the new one inserted (retracting), or the new one is inserted (accumulating). Discarding panes are never corrected:
each shows only what came since the last.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from penstock.kernel.fire import pane_schema, shows
from penstock.kernel.merge import is_complete
from penstock.kernel.plan import END, START, Plan, nothing, shown
from penstock.model.time import Instant

#: Floats with a smaller relative difference count as equal: sums of floats depend on the order.
TOLERANCE = 1e-9


@dataclass
class SwapResult:
    """The rows to write, with their firing state, and the panes that correct the old generation."""

    live: pl.DataFrame
    closed: pl.DataFrame
    panes: pl.DataFrame


def standing(plan: Plan, rows: pl.DataFrame) -> pl.DataFrame:
    """What stands for windows: place, the index of the next pane, `__stood`, that of the last, and values `was:…`.

    `__stood` is null where no pane stands. Rows have the plan's state and `final`.
    """
    values, holds = shows(plan, rows, plan.columns)
    there = pl.col("__index").fill_null(0) > 0
    if plan.view.signed:
        there = there & (pl.col("__rows") != 0)
    if holds is not None:
        there = there & pl.lit(holds)
    stood, was = pl.col("__index") - 1, [series.alias(f"was:{series.name}") for series in values]
    marked = rows.with_columns(was)
    if plan.retracting:
        there = (there & pl.col("final")) | (~pl.col("final") & pl.col("__shown").is_not_null())
        stood = pl.when("final").then(stood).otherwise("__shown")
        marked = marked.with_columns(
            pl.when("final").then(f"was:{name}").otherwise(shown(name)).alias(f"was:{name}") for name in plan.values
        )
    return marked.select(
        *plan.keys, START, END, pl.col("__index").fill_null(0), pl.when(there).then(stood).alias("__stood"),
        *(f"was:{name}" for name in plan.values),
    )  # fmt: skip


def settle(
    plan: Plan, new: pl.DataFrame, was: pl.DataFrame, old: pl.DataFrame | None, watermark: Instant
) -> SwapResult:
    """Rows of a new generation (state and `final`) that take the place of what stood.

    `old` are the rows of the same definition that they replace: their firing state goes on. Without them that of the
    new rows does, which says what panes would have been.
    """
    place = [*plan.keys, START, END]
    rows = new if old is None else _carried(plan, new, old)
    values, holds = shows(plan, rows, plan.columns)
    stands = pl.col("__index").fill_null(0) > 0
    if plan.retracting:
        stands = stands & (pl.col("final") | pl.col("__shown").is_not_null())
        if old is None:  # what would have stood is what would have been shown last
            final = rows["final"]
            values = [
                rows.select(pl.when(final).then(pl.lit(value)).otherwise(pl.col(shown(value.name))))
                .to_series()
                .alias(value.name)
                for value in values
            ]
    if plan.view.signed:
        stands = stands & (pl.col("__rows") != 0)
    if holds is not None:
        stands = stands & pl.lit(holds)
    compared = rows.with_columns(stands.alias("__stands"), *(series.alias(f"now:{series.name}") for series in values))
    known = was.rename({"__index": "__next"})
    compared = compared.join(known, on=place, how="left", nulls_equal=True).with_columns(pl.col("__next").fill_null(0))
    differs = pl.col("__stood").is_null() | _differ(plan)
    compared = compared.with_columns((pl.col("__stands") & differs & (not plan.discarding)).alias("__insert"))
    panes = [_inserted(plan, compared, watermark)]
    if plan.retracting:
        panes.insert(0, _taken_back(plan, compared, was))
    schema = pane_schema(plan)
    together = (
        pl.concat(panes).sort([*place, "__insert", "__index"]) if any(p.height for p in panes) else nothing(schema)
    )
    after = _after(plan, compared)
    return SwapResult(after.filter(~pl.col("final")), after.filter("final"), together)


def _carried(plan: Plan, new: pl.DataFrame, old: pl.DataFrame) -> pl.DataFrame:
    """New rows with the firing state of those that they replace."""
    by, firing = [*plan.keys, START, END, "final"], list(plan.firing_schema)
    both = new.drop(firing).join(old.select(*by, *firing), on=by, nulls_equal=True)
    alone = new.join(old.select(by), on=by, how="anti", nulls_equal=True)
    # A changed value that no pane has shown must count as new, or it would not be shown when its time comes.
    waiting = ~pl.col("final") & (pl.col("__index") == 0)
    both = both.with_columns(pl.when(waiting).then(pl.max_horizontal("__new", 1)).otherwise("__new").alias("__new"))
    return pl.concat([both.select(new.columns), alone])


def _differ(plan: Plan) -> pl.Expr:
    """Whether what is to stand differs from what stood."""
    differences = [pl.lit(False)]
    for name, kind in plan.values.items():
        now, was = pl.col(f"now:{name}"), pl.col(f"was:{name}")
        unequal = now.ne_missing(was)
        if kind.is_float():
            near = (now - was).abs() <= TOLERANCE * pl.max_horizontal(now.abs(), was.abs())
            unequal = unequal & ~(near & ~now.is_nan() & ~was.is_nan()).fill_null(False)
        differences.append(unequal)
    return pl.any_horizontal(differences)


def _inserted(plan: Plan, compared: pl.DataFrame, watermark: Instant) -> pl.DataFrame:
    late = pl.col("final") | is_complete(plan, watermark)
    return compared.filter("__insert").select(
        *plan.keys, START, END,
        *(pl.col(f"now:{name}").alias(name) for name in plan.values),
        pl.lit(True).alias("__insert"),
        pl.when(late).then(pl.lit("late")).otherwise(pl.lit("early")).alias("__timing"),
        pl.col("__next").alias("__index"),
        pl.col("final").alias("__final"),
    )  # fmt: skip


def _taken_back(plan: Plan, compared: pl.DataFrame, was: pl.DataFrame) -> pl.DataFrame:
    """What stood and is replaced, or has nothing in its place."""
    place = [*plan.keys, START, END]
    goes_on = compared.filter(pl.col("__stands") & ~pl.col("__insert")).select(place)
    gone = was.filter(pl.col("__stood").is_not_null()).join(goes_on, on=place, how="anti", nulls_equal=True)
    return gone.select(
        *place,
        *(pl.col(f"was:{name}").alias(name) for name in plan.values),
        pl.lit(False).alias("__insert"),
        pl.lit("late").alias("__timing"),
        pl.col("__stood").alias("__index"),
        pl.lit(False).alias("__final"),
    )


def _after(plan: Plan, compared: pl.DataFrame) -> pl.DataFrame:
    """The rows as they go on: what was inserted now stands; indexes go on from those of the old generation."""
    insert = pl.col("__insert")
    index = pl.col("__index").fill_null(0) if plan.discarding else pl.col("__next")
    updates = [
        (index + insert.cast(pl.Int64)).alias("__index"),
        pl.when(~insert).then("__new").otherwise(0).alias("__new"),
    ]
    if plan.retracting:
        stays = pl.when("__stands").then("__stood")
        updates.append(pl.when(insert).then("__next").otherwise(stays).alias("__shown"))
        updates += [
            pl.when(insert).then(f"now:{name}").when("__stands").then(f"was:{name}").alias(shown(name))
            for name in plan.values
        ]
    return compared.with_columns(updates).select(*plan.state_schema, "final")


def unshown(plan: Plan, rows: pl.DataFrame) -> pl.DataFrame:
    """Rows of a back-filled view: nothing of them was ever shown, so nothing can be taken back."""
    updates = [pl.lit(0, pl.Int64).alias("__index")]
    if plan.retracting:
        updates.append(pl.lit(None, pl.Int64).alias("__shown"))
    return rows.with_columns(updates)
