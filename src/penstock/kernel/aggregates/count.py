"""Counting on columns: one Int64."""

from __future__ import annotations

import polars as pl

from penstock.kernel.aggregates.base import SIGN, Expressive


class CountColumns(Expressive):
    """`name`: the number so far."""

    def partial(self) -> dict[str, pl.DataType]:
        return {self.name: pl.Int64()}

    def reduce(self, inputs: tuple[pl.Expr, ...], where: pl.Expr | None) -> list[pl.Expr]:
        return [counted(inputs[0] if inputs else None, where, self.signed).alias(self.name)]

    def combine(self) -> list[pl.Expr]:
        return [pl.col(self.name).sum()]

    def negate(self) -> list[pl.Expr]:
        return [-pl.col(self.name)]

    def present_expr(self) -> pl.Expr:
        return pl.col(self.name)

    def zero(self) -> dict[str, object]:
        return {self.name: 0}


def counted(value: pl.Expr | None, where: pl.Expr | None, signed: bool) -> pl.Expr:
    """How many rows are taken and have a value; retracting rows count −1."""
    here = where
    if value is not None and (signed or where is not None):
        here = value.is_not_null() if where is None else value.is_not_null() & where
    if signed:
        return SIGN.cast(pl.Int64).sum() if here is None else pl.when(here).then(SIGN.cast(pl.Int64)).sum()
    if here is not None:
        return here.sum().cast(pl.Int64)
    return (pl.len() if value is None else value.count()).cast(pl.Int64)
