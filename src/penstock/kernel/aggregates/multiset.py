"""Aggregates that take retractions by keeping how often each value is there, on columns."""

from __future__ import annotations

import polars as pl

from penstock.kernel.aggregates.base import AT, SIGN, Columns, canonical, only
from penstock.kernel.aggregates.lists import ROW, blank, elements, exploded, put_back, tally
from penstock.kernel.aggregates.moments import moment
from penstock.kernel.aggregates.order import all_places
from penstock.kernel.expressions.dtypes import dtype
from penstock.model.aggregates import Aggregate, Avg, CollectList, First, FromMultiset, Last, MaxBy, MinBy, Moments, Top


class Bag(Columns):
    """`name`: a list of structs (at, v0, …, times), each different one once."""

    needs_settle = True

    def partial(self) -> dict[str, pl.DataType]:
        parts = {"at": pl.Int64(), **{f"v{i}": dtype(kind) for i, kind in enumerate(self.types)}, "times": pl.Int64()}
        return {self.name: pl.List(pl.Struct(parts))}

    @property
    def of(self) -> Aggregate:
        """The aggregate that is computed from the bag."""
        return self.aggregate.of if isinstance(self.aggregate, FromMultiset) else self.aggregate

    def reduce(self, inputs: tuple[pl.Expr, ...], where: pl.Expr | None) -> list[pl.Expr]:
        timed = isinstance(self.aggregate, FromMultiset) and self.aggregate.timed
        row = pl.struct(
            (AT if timed else AT * 0).alias("at"),
            *(canonical(x, kind).alias(f"v{i}") for i, (x, kind) in enumerate(zip(inputs, self.types, strict=True))),
            SIGN.cast(pl.Int64).alias("times"),
        )
        return [only(row, where, *self._never_null(inputs)).alias(self.name)]

    def _never_null(self, inputs: tuple[pl.Expr, ...]) -> tuple[pl.Expr, ...]:
        """The input without which a row is skipped."""
        if isinstance(self.of, (First, Last)):
            return ()
        return inputs[1:] if isinstance(self.of, (MinBy, MaxBy)) else inputs[:1]

    def combine(self) -> list[pl.Expr]:
        return [exploded(self.name)]

    def settle(self, frame: pl.DataFrame) -> pl.DataFrame:
        return tally(frame, self.name, ["at", *(f"v{i}" for i in range(len(self.types)))])

    def negate(self) -> list[pl.Expr]:
        back = pl.element().struct.with_fields(-pl.element().struct.field("times"))
        return [pl.col(self.name).list.eval(back)]

    def zero(self) -> dict[str, object]:
        return {self.name: []}


class CountedColumns(Bag):
    """Computed by the unsigned columns of the same aggregate, from the rows that the bag stands for."""

    def __init__(self, aggregate: FromMultiset, name: str, types: tuple[str, ...], plain: Columns) -> None:
        self.plain = plain
        super().__init__(aggregate, name, types, signed=True)

    def present(self, frame: pl.DataFrame) -> pl.Series:
        rows = elements(frame, self.name).filter(pl.col("times") > 0)
        times = pl.min_horizontal("times", self._copies()) if self._copies() else pl.col("times")
        rows = rows.with_columns(pl.int_range(pl.len(), dtype=pl.Int64).repeat_by(times).alias("__offset"))
        rows = rows.explode("__offset", empty_as_null=False, keep_nulls=False).with_columns(
            pl.col("at").alias("__at"), pl.lit(0, dtype=pl.Int32).alias("__partition")
        )
        inputs = tuple(pl.col(f"v{i}") for i in range(len(self.types)))
        # The group has a name of its own, since settling numbers rows too.
        rows = rows.with_columns(all_places(self.plain.reduce_orders(inputs, None)))
        groups = rows.group_by(pl.col(ROW).alias("__group")).agg(self.plain.reduce(inputs, None))
        partials = self.plain.settle(groups).rename({"__group": ROW})
        zeros = {
            field: pl.lit(value, dtype=self.plain.fields[field])
            for field, value in self.plain.zero().items()
            if value is not None
        }
        return self.plain.present(put_back(blank(frame), partials, zeros))

    def _copies(self) -> int | None:
        """How many equal rows can make a difference."""
        if isinstance(self.of, CollectList):
            return None
        if isinstance(self.of, Top):
            return None if self.of.ties else self.of.k
        return 1


class WeightedColumns(Bag):
    """Sums and moments of floats: from the bag they come out the same in any order, and what is taken back is gone."""

    def present(self, frame: pl.DataFrame) -> pl.Series:
        value, times = pl.col("v0").cast(pl.Float64), pl.col("times")
        mean = (value * times).sum() / times.sum()
        moments = (
            elements(frame, self.name)
            .group_by(ROW)
            .agg(
                times.sum().alias("n"),
                (value * times).sum().alias("sum"),
                (times * (value - mean) ** 2).sum().alias("m2"),
            )
        )
        zero = pl.lit(0)
        rows = put_back(blank(frame), moments, {"n": zero, "sum": zero, "m2": zero})
        return rows.select(self._answer().alias(self.name)).to_series()

    def _answer(self) -> pl.Expr:
        n, total = pl.col("n"), pl.col("sum")
        if isinstance(self.aggregate, Moments):
            return moment(self.aggregate, n, pl.col("m2"))
        return pl.when(n != 0).then(canonical(total / n if isinstance(self.aggregate, Avg) else total, "double"))
