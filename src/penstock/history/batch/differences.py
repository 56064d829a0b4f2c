"""Compares two tables of a view: the one in the store, and the one computed from the past."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import polars as pl

from penstock.history.batch.tolerance import FLOATS, is_sketchy, same
from penstock.kernel.plan import END, START, Plan
from penstock.kernel.reduce import closing_bound
from penstock.model.aggregates import Aggregate, Paired
from penstock.model.aggregates.paired import ANSWERED, exactness
from penstock.model.time import BEGINNING, Instant
from penstock.store.tables import Layout

PLACE: Final = (END, START, "__key")
_MOST: Final = 10_000


def _parts(layout: Layout) -> list[tuple[str, Aggregate, list[str]]]:
    """Each aggregate with the columns of its partial in the kernel's state."""
    aggregates = dict(layout.plan.view.aggregates)
    return [
        (part.name, aggregates[part.name], list(part.fields)) for part in layout.plan.columns if part.name in aggregates
    ]


def sketchy(layout: Layout) -> list[tuple[str, str]]:
    return [(name, fields[0]) for name, aggregate, fields in _parts(layout) if is_sketchy(aggregate)]


def compared(layout: Layout) -> list[str]:
    """The columns of the table that are compared: what people read, and the state behind it where it is exact."""
    plan = layout.plan
    columns = list(plan.values)
    columns += ["__holds"] if plan.view.condition is not None else []
    for _, aggregate, fields in _parts(layout):
        if aggregate.exact:
            exact = [name for name in fields if not plan.value_schema[name].is_float()]
            columns += [layout.stored[name] for name in exact if layout.stored[name] not in columns]
    return list(dict.fromkeys(columns))


def scope(plan: Plan, watermark: Instant, then: bool, sample: float) -> pl.Expr:
    """Which windows are compared: a part of the keys, those that are not too old, and those that were final then."""
    rule = pl.lit(True)
    if sample < 1.0:
        rule &= pl.col("__key").hash(0) % _MOST < round(sample * _MOST)
    if plan.view.retention is not None and watermark > BEGINNING:
        rule &= pl.col(END) >= watermark - plan.view.retention
    if then:
        bound = closing_bound(plan, watermark)
        rule &= pl.lit(False) if bound is None else pl.col(END) <= bound
    return rule


def differing(
    layout: Layout, stored: pl.DataFrame, computed: pl.DataFrame, sketches: pl.DataFrame | None
) -> pl.DataFrame:
    """The rows that only one side has, and those with other values."""
    on = [*PLACE] if layout.in_place else [*PLACE, "final"]
    columns = [*(["final"] if layout.in_place else []), *compared(layout)]
    both = stored.with_columns(pl.lit(1).alias("__stored")).join(
        computed.with_columns(pl.lit(1).alias("__computed")), on=on, how="full", coalesce=True, suffix=":computed"
    )
    kind = (
        pl.when(pl.col("__computed").is_null()).then(pl.lit("extra"))
        .when(pl.col("__stored").is_null()).then(pl.lit("missing")).otherwise(pl.lit("differs"))
    )  # fmt: skip
    differ = pl.any_horizontal(pl.lit(False), *(_differs(both, name) for name in columns))
    alone = pl.col("__stored").is_null() | pl.col("__computed").is_null()
    both = both.with_columns(kind.alias("__kind")).filter(alone | differ)
    if sketches is None or not both.height:
        return both
    exact = [name for name in columns if name not in dict(sketchy(layout))]
    both = both.join(sketches, on=PLACE, how="left")
    wrong = [
        row["__kind"] != "differs"
        or any(not same(None, row[name], row[f"{name}:computed"]) for name in exact)
        or any(
            not same(_guessed(layout, name, row), row[name], row[f"{name}:computed"], row[f"sketch:{name}"])
            for name, _ in sketchy(layout)
        )
        for row in both.iter_rows(named=True)
    ]
    return both.filter(pl.Series(wrong, dtype=pl.Boolean))


def _guessed(layout: Layout, name: str, row: Mapping[str, Any]) -> Aggregate | None:
    """The aggregate that may answer differently each time; None where a batch run has answered exactly."""
    aggregate = dict(layout.plan.view.aggregates)[name]
    exact = isinstance(aggregate, Paired) and row[layout.stored[exactness(name)]] == ANSWERED
    return None if exact else aggregate


def _differs(both: pl.DataFrame, name: str) -> pl.Expr:
    ours, theirs = pl.col(name), pl.col(f"{name}:computed")
    if not (both.schema[name].is_float() or both.schema[f"{name}:computed"].is_float()):
        return ours.ne_missing(theirs)
    close = (ours - theirs).abs() <= FLOATS * pl.max_horizontal(ours.abs(), theirs.abs())
    alike = (
        pl.when(ours.is_nan() | theirs.is_nan())
        .then(ours.is_nan() & theirs.is_nan())
        .otherwise(close | (ours == theirs))
    )
    return ~pl.when(ours.is_null() & theirs.is_null()).then(True).otherwise(alike.fill_null(False))
