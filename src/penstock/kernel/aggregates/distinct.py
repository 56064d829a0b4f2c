"""Sets of values on columns: presented as a sorted list, or as their number."""

from __future__ import annotations

import polars as pl

from penstock.kernel.aggregates.base import Expressive, canonical, only
from penstock.kernel.aggregates.lists import ROW, exploded, put_back
from penstock.kernel.expressions.dtypes import dtype
from penstock.model.aggregates import CountDistinct


class DistinctColumns(Expressive):
    """`name`: a list of the different values, smallest first."""

    needs_settle = True

    def partial(self) -> dict[str, pl.DataType]:
        return {self.name: pl.List(dtype(self.types[0]))}

    def reduce(self, inputs: tuple[pl.Expr, ...], where: pl.Expr | None) -> list[pl.Expr]:
        value = canonical(inputs[0], self.types[0])
        return [only(value, where, inputs[0]).alias(self.name)]

    def combine(self) -> list[pl.Expr]:
        return [exploded(self.name)]

    def settle(self, frame: pl.DataFrame) -> pl.DataFrame:
        rows = frame.select(pl.int_range(pl.len(), dtype=pl.UInt32).alias(ROW), self.name)
        values = _once(rows.explode(self.name, empty_as_null=False, keep_nulls=False), self.name)
        empty = {self.name: pl.lit([], dtype=self.fields[self.name])}
        return put_back(frame, values.group_by(ROW, maintain_order=True).agg(self.name), empty)

    def present_expr(self) -> pl.Expr:
        values = pl.col(self.name)
        return values.list.len().cast(pl.Int64) if isinstance(self.aggregate, CountDistinct) else values

    def zero(self) -> dict[str, object]:
        return {self.name: []}


def _once(values: pl.DataFrame, name: str) -> pl.DataFrame:
    """Each value of a row once, sorted. Equal ones are neighbours then, which is faster than to hash all of them."""
    if values.schema[name].is_nested():
        return values.unique().sort(ROW, name)
    ordered = values.sort(ROW, name)
    return ordered.filter(pl.any_horizontal(pl.col(ROW, name).ne_missing(pl.col(ROW, name).shift())))
