"""Comparison and choice on columns. Polars orders NaN above all and equal to itself, as Spark does.

>>> import polars as pl
>>> from penstock.model.expressions.tree import Call
>>> pl.select(LOGIC["same"](Call("same", (), "boolean"), pl.lit(None), pl.lit(None))).item()
True
"""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import Final

import polars as pl

from penstock.kernel.expressions.dtypes import dtype
from penstock.kernel.expressions.outcome import Rule
from penstock.model.expressions.coerce import is_decimal
from penstock.model.expressions.tree import Call, Column, Literal
from penstock.model.types import INTEGERS, is_integer


def _compare(name: str) -> Rule:
    def rule(call: Call, left: pl.Expr, right: pl.Expr) -> pl.Expr:
        whole = _as_integers(call, name)
        result: pl.Expr = getattr(left, name)(right) if whole is None else whole
        return result

    return rule


def _as_integers(call: Call, name: str) -> pl.Expr | None:
    """`quantity > 1.5` compares decimals in Spark; over a whole column, `quantity > 1` is the same and much faster."""
    left, right = call.args
    if isinstance(left, Literal):
        left, right, name = right, left, _MIRRORED[name]
    if not (isinstance(left, Call) and left.name == "cast" and is_integer(left.args[0].type) and is_decimal(left.type)):
        return None
    column = left.args[0]
    if not (isinstance(column, Column) and isinstance(right, Literal) and isinstance(right.value, Decimal)):
        return None
    edge = right.value.to_integral_value(ROUND_FLOOR if name in ("gt", "le") else ROUND_CEILING)
    half = 1 << (INTEGERS[column.type] - 1)
    if not -half <= edge < half or (name == "eq" and edge != right.value):
        return None
    whole: pl.Expr = getattr(pl.col(column.name), name)(pl.lit(int(edge), dtype=dtype(column.type)))
    return whole


_MIRRORED = {"eq": "eq", "lt": "gt", "gt": "lt", "le": "ge", "ge": "le"}


def _extreme(name: str) -> Rule:
    """The first of the best values, nulls left out: of two zeros of different sign, the one that came first."""

    def rule(_: Call, first: pl.Expr, *others: pl.Expr) -> pl.Expr:
        best = first
        for other in others:
            wins = (other > best) if name == "greatest" else (other < best)
            best = pl.when(best.is_null() | wins).then(other).otherwise(best)
        return best

    return rule


LOGIC: Final[dict[str, Rule]] = {
    **{name: _compare(name) for name in ("eq", "lt", "le", "gt", "ge")},
    "same": lambda _, left, right: left.eq_missing(right),
    "not": lambda _, value: ~value,
    "is_null": lambda _, value: value.is_null(), "is_nan": lambda _, value: value.is_nan().fill_null(False),
    "is_true": lambda _, value: value.fill_null(False), "is_false": lambda _, value: ~value.fill_null(True),
    "greatest": _extreme("greatest"), "least": _extreme("least"),
}  # fmt: skip
