"""Finds the rows of a frame that no store, sink or answer could hold: `penstock.model.storable` on columns."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl

from penstock.kernel.expressions import entries
from penstock.model.storable import OUTSIDE, TIMES, has_nul, is_far
from penstock.model.types import Schema, fields_of


def why_not_storable(schema: Schema) -> list[pl.Expr]:
    """For each column that can hold such values why a row is refused, null where it is not."""
    reasons: list[pl.Expr] = []
    for name, kind in schema:
        for reason, test in ((has_nul(name), _is_nul), (is_far(name), _is_far)):
            bad = _any_scalar(pl.col(name), kind, test)
            if bad is not None:
                reasons.append(pl.when(bad).then(pl.lit(reason)))
    return reasons


def outside(at: pl.Expr) -> pl.Expr:
    """Why a row with this event time is refused, null where it is not."""
    first, last = TIMES["timestamp"]
    return pl.when((at < first) | (at > last)).then(pl.lit(OUTSIDE))


def _is_nul(column: pl.Expr, kind: str) -> pl.Expr | None:
    return column.str.contains("\0", literal=True) if kind == "string" else None


def _is_far(column: pl.Expr, kind: str) -> pl.Expr | None:
    if kind not in TIMES:
        return None
    first, last = TIMES[kind]
    number = column.to_physical()
    return (number < first) | (number > last)


def _any_scalar(column: pl.Expr, kind: str, test: Callable[[pl.Expr, str], pl.Expr | None]) -> pl.Expr | None:
    """Whether a condition holds for a value, or for one that it holds; None if it cannot."""
    if kind.startswith("array<"):
        inner = _any_scalar(pl.element(), kind[6:-1], test)
        return None if inner is None else column.list.eval(inner.any(ignore_nulls=True)).list.any()
    if kind.startswith("map<"):
        (_, key), (_, value) = fields_of(kind)
        return _any_scalar(entries(column, kind), f"array<struct<key:{key},value:{value}>>", test)
    if kind.startswith("struct<"):
        parts = [_any_scalar(column.struct.field(name), part, test) for name, part in fields_of(kind)]
        known = [part.fill_null(False) for part in parts if part is not None]
        return pl.any_horizontal(known) if known else None
    return test(column, kind)
