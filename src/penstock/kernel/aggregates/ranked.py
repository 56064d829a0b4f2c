"""Rows kept in order on columns: the best k, and lists of all."""

from __future__ import annotations

import polars as pl

from penstock.kernel.aggregates.base import AT, OFFSET, PARTITION, Expressive, canonical, only
from penstock.kernel.aggregates.lists import exploded, field_of
from penstock.kernel.aggregates.types import dtype
from penstock.model.aggregates import CollectList, Top

_PARTS = ("rank", "partition", "offset", "value")


class RankedColumns(Expressive):
    """`name`: a list of structs (rank, partition, offset, value), in order."""

    #: Whether the largest rank comes first.
    descending: bool

    def __init__(self, aggregate: Top | CollectList, name: str, types: tuple[str, ...]) -> None:
        self.limit = aggregate.k if isinstance(aggregate, Top) else None
        self.descending = isinstance(aggregate, Top)
        super().__init__(aggregate, name, types)

    def partial(self) -> dict[str, pl.DataType]:
        rank = dtype(self.types[0]) if self.descending else pl.Int64()
        kinds = (rank, pl.Int32(), pl.Int64(), dtype(self.types[-1]))
        return {self.name: pl.List(pl.Struct(dict(zip(_PARTS, kinds, strict=True))))}

    def reduce(self, inputs: tuple[pl.Expr, ...], where: pl.Expr | None) -> list[pl.Expr]:
        rank = self._rank(inputs[0])
        return [self._ordered(*(only(part, where, inputs[0]) for part in (rank, PARTITION, OFFSET, inputs[-1])))]

    def _rank(self, by: pl.Expr) -> pl.Expr:
        if isinstance(self.aggregate, CollectList):
            return AT if self.aggregate.order == "time" else AT * 0
        return canonical(by, self.types[0])

    def combine(self) -> list[pl.Expr]:
        rows = exploded(self.name)
        return [self._ordered(*(rows.struct.field(part) for part in _PARTS))]

    def _ordered(self, *parts: pl.Expr) -> pl.Expr:
        row = pl.struct(part.alias(name) for part, name in zip(parts, _PARTS, strict=True))
        keys = 3 if dtype(self.types[-1]).is_nested() else 4
        rows = row.sort_by(parts[:keys], descending=[self.descending, *[False] * (keys - 1)])
        return (rows if self.limit is None else rows.head(self.limit)).alias(self.name)

    def present_expr(self) -> pl.Expr:
        return field_of(self.name, "value")

    def zero(self) -> dict[str, object]:
        return {self.name: []}
