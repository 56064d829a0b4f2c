"""The smallest and the largest value on columns."""

from __future__ import annotations

import polars as pl

from penstock.kernel.aggregates.base import Expressive, canonical, taken
from penstock.kernel.expressions.dtypes import dtype
from penstock.model.aggregates import Min
from penstock.model.types import is_float


class ExtremeColumns(Expressive):
    """`name`: the extreme so far; null before the first."""

    def partial(self) -> dict[str, pl.DataType]:
        return {self.name: dtype(self.types[0])}

    def reduce(self, inputs: tuple[pl.Expr, ...], where: pl.Expr | None) -> list[pl.Expr]:
        return [self._extreme(taken(inputs[0], where)).alias(self.name)]

    def combine(self) -> list[pl.Expr]:
        return [self._extreme(pl.col(self.name))]

    def _extreme(self, value: pl.Expr) -> pl.Expr:
        if isinstance(self.aggregate, Min):
            return value.min()  # takes NaN only if there is nothing else: in Spark's order it is the largest
        return value.nan_max() if is_float(self.types[0]) else value.max()

    def present_expr(self) -> pl.Expr:
        return canonical(pl.col(self.name), self.types[0]).alias(self.name)

    def zero(self) -> dict[str, object]:
        return {self.name: None}
