"""Finds the rows of a frame that no store, sink or answer could hold: `penstock.model.storable` on columns."""

from __future__ import annotations

import polars as pl

from penstock.model.storable import OUTSIDE, TIMES, has_nul, is_far
from penstock.model.types import Schema


def why_not_storable(schema: Schema) -> list[pl.Expr]:
    """For each column that can hold such values why a row is refused, null where it is not."""
    found: list[pl.Expr] = []
    for name, kind in schema:
        bad = _is_not_storable(pl.col(name), kind)
        if bad is not None:
            reason = has_nul(name) if "string" in kind else is_far(name)
            found.append(pl.when(bad).then(pl.lit(reason)))
    return found


def outside(at: pl.Expr) -> pl.Expr:
    """Why a row with this event time is refused, null where it is not."""
    first, last = TIMES["timestamp"]
    return pl.when((at < first) | (at > last)).then(pl.lit(OUTSIDE))


def _is_not_storable(column: pl.Expr, kind: str) -> pl.Expr | None:
    if kind == "string":
        return column.str.contains("\0", literal=True)
    if kind in TIMES:
        first, last = TIMES[kind]
        number = column.to_physical()
        return (number < first) | (number > last)
    if kind.startswith("array<"):
        inner = _is_not_storable(pl.element(), kind[6:-1])
        return None if inner is None else column.list.eval(inner.any(ignore_nulls=True)).list.any()
    return None
