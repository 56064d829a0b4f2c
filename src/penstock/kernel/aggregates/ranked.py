"""Rows kept in order on columns: the best k, and lists of all."""

from __future__ import annotations

import polars as pl

from penstock.kernel.aggregates.base import AT, canonical, only
from penstock.kernel.aggregates.lists import ROW, elements, exploded, field_of, gather
from penstock.kernel.aggregates.positioned import Positioned
from penstock.kernel.expressions.dtypes import dtype
from penstock.model.aggregates import CollectList, Top


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
        parts = (self._rank(inputs[0]), *self.position, inputs[-1])
        row = pl.struct(part.alias(name) for part, name in zip(parts, self.parts, strict=True))
        return [only(row, where, inputs[0]).alias(self.name)]

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
        return gather(frame, self.name, rows, self.aggregate.k if isinstance(self.aggregate, Top) else None)

    def present_expr(self) -> pl.Expr:
        return field_of(self.name, "value")

    def zero(self) -> dict[str, object]:
        return {self.name: []}
