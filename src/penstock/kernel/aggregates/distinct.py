"""Sets of values on columns: presented as a sorted list, or as their number."""

from __future__ import annotations

import polars as pl

from penstock.kernel.aggregates.base import Expressive, canonical, only
from penstock.kernel.aggregates.lists import exploded
from penstock.kernel.aggregates.types import dtype
from penstock.model.aggregates import CountDistinct


class DistinctColumns(Expressive):
    """`name`: a list of the different values."""

    def partial(self) -> dict[str, pl.DataType]:
        return {self.name: pl.List(dtype(self.types[0]))}

    def reduce(self, inputs: tuple[pl.Expr, ...], where: pl.Expr | None) -> list[pl.Expr]:
        value = canonical(inputs[0], self.types[0])
        return [only(value, where, inputs[0]).unique().alias(self.name)]

    def combine(self) -> list[pl.Expr]:
        return [exploded(self.name).unique().alias(self.name)]

    def present_expr(self) -> pl.Expr:
        values = pl.col(self.name).list
        return values.len().cast(pl.Int64) if isinstance(self.aggregate, CountDistinct) else values.sort()

    def zero(self) -> dict[str, object]:
        return {self.name: []}
