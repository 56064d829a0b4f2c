"""Rows kept in order on columns: the best k, and lists of all."""

from __future__ import annotations

import polars as pl

from penstock.kernel.aggregates.base import AT, canonical, only, taken
from penstock.kernel.aggregates.lists import ROW, elements, exploded, field_of, gather
from penstock.kernel.aggregates.positioned import Positioned
from penstock.kernel.expressions.dtypes import dtype
from penstock.model.aggregates import CollectList, Top
from penstock.model.types import is_float


class RankedColumns(Positioned):
    """`name`: a list of structs (rank, partition, offset, value), in order. The rank is `by`, or the event time.

    Of made rows also `ordinal`, before the value.
    """

    needs_settle = True
    aggregate: Top | CollectList

    def partial(self) -> dict[str, pl.DataType]:
        rank = dtype(self.types[0]) if isinstance(self.aggregate, Top) else pl.Int64()
        return {self.name: pl.List(pl.Struct(self.part_types(rank, dtype(self.types[-1]))))}

    def reduce(self, inputs: tuple[pl.Expr, ...], where: pl.Expr | None) -> list[pl.Expr]:
        rank = self._rank(inputs[0])
        parts = zip(self.parts, (rank, *self.position, inputs[-1]), strict=True)
        row = pl.struct(part.alias(name) for name, part in parts)
        if self._keeps_largest:
            largest = taken(rank, where)
            return [row.filter(largest.is_not_null() & (largest == largest.max())).alias(self.name)]
        return [only(row, where, inputs[0]).alias(self.name)]

    @property
    def _keeps_largest(self) -> bool:
        """Whether rows without the largest value can be left out at once. A maximum of floats passes over NaN."""
        return isinstance(self.aggregate, Top) and self.aggregate.k == 1 and not is_float(self.types[0])

    def _rank(self, by: pl.Expr) -> pl.Expr:
        if isinstance(self.aggregate, CollectList):
            return AT if self.aggregate.order == "time" else AT * 0
        return canonical(by, self.types[0])

    def combine(self) -> list[pl.Expr]:
        return [exploded(self.name)]

    def settle(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Sorts and cuts here: in Polars 2.1, explode, sort_by and head inside one `agg` read beyond their memory."""
        keys = [ROW, *(self.parts[:-1] if dtype(self.types[-1]).is_nested() else self.parts)]
        best_first = isinstance(self.aggregate, Top)
        rows = elements(frame, self.name).sort(keys, descending=[best_first and key == "rank" for key in keys])
        if not isinstance(self.aggregate, Top):
            return gather(frame, self.name, rows)
        if self.aggregate.ties:
            return gather(frame, self.name, rows.filter(_rank_among_equals() < self.aggregate.k))
        return gather(frame, self.name, rows, self.aggregate.k)

    def present_expr(self) -> pl.Expr:
        return field_of(self.name, "value")

    def zero(self) -> dict[str, object]:
        return {self.name: []}


def _rank_among_equals() -> pl.Expr:
    """How many rows of the same group are better, where groups are sorted with the best row first."""
    rank, place = pl.col("rank"), pl.int_range(pl.len(), dtype=pl.Int64)
    group = pl.col(ROW)
    first_of_group = group.ne_missing(group.shift(1))
    first_of_equals = first_of_group | rank.ne_missing(rank.shift(1))
    since = pl.when(first_of_group).then(place).forward_fill()
    return pl.when(first_of_equals).then(place).forward_fill() - since
