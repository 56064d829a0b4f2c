"""Variance and standard deviation on columns: count, mean and squared deviations, after Chan, Golub and LeVeque."""

from __future__ import annotations

import polars as pl

from penstock.kernel.aggregates.base import Expressive, taken
from penstock.kernel.aggregates.count import counted
from penstock.model.aggregates import Moments


class MomentColumns(Expressive):
    """`name.n`, `name.mean`, `name.m2`: how many, their mean, and the sum of squared deviations from it."""

    def partial(self) -> dict[str, pl.DataType]:
        return {f"{self.name}.n": pl.Int64(), f"{self.name}.mean": pl.Float64(), f"{self.name}.m2": pl.Float64()}

    def reduce(self, inputs: tuple[pl.Expr, ...], where: pl.Expr | None) -> list[pl.Expr]:
        value = taken(inputs[0], where).cast(pl.Float64)
        n = counted(inputs[0], where, signed=False)
        return [
            n.alias(f"{self.name}.n"),
            value.mean().fill_null(0.0).alias(f"{self.name}.mean"),
            (value.var(ddof=0) * n).fill_null(0.0).alias(f"{self.name}.m2"),
        ]

    def combine(self) -> list[pl.Expr]:
        n, mean, m2 = (pl.col(field) for field in self.fields)
        count = n.sum()
        centre = pl.when(count == 0).then(0.0).otherwise((n * mean).sum() / count)
        return [count, centre.alias(mean.meta.output_name()), m2.sum() + (n * (mean - centre) ** 2).sum()]

    def present_expr(self) -> pl.Expr:
        n, _, m2 = (pl.col(field) for field in self.fields)
        return moment(self.aggregate, n, m2).alias(self.name)

    def zero(self) -> dict[str, object]:
        return dict.fromkeys(self.fields, 0)


def moment(aggregate: object, n: pl.Expr, m2: pl.Expr) -> pl.Expr:
    """The answer from the count and the squared deviations."""
    assert isinstance(aggregate, Moments)
    variance = m2 / (n - aggregate.fewer)
    return pl.when((n != 0) & (n != aggregate.fewer)).then(variance.sqrt() if aggregate.root else variance)
