"""The value of one row of each group, on columns: the first in an order of all rows."""

from __future__ import annotations

import polars as pl

from penstock.kernel.aggregates.base import AT, canonical, taken
from penstock.kernel.aggregates.order import RowOrder
from penstock.kernel.aggregates.positioned import Positioned
from penstock.kernel.expressions.dtypes import dtype
from penstock.model.aggregates import Aggregate, First, Last, MaxBy


class PickColumns(Positioned):
    """`name.rank` (the event time, or `by`; null before the first row), `.partition`, `.offset`, `.value`.

    Of made rows also `.ordinal`.
    """

    needs_settle = True

    def __init__(
        self, aggregate: Aggregate, name: str, types: tuple[str, ...], made: bool = False, alone: bool = True
    ) -> None:
        self.alone = alone  # each row has a position of its own
        super().__init__(aggregate, name, types, made=made)

    def partial(self) -> dict[str, pl.DataType]:
        kinds = self.part_types(self._rank_type(), dtype(self.types[0]))
        return {f"{self.name}.{part}": kind for part, kind in kinds.items()}

    def _rank_type(self) -> pl.DataType:
        return pl.Int64() if isinstance(self.aggregate, (First, Last)) else dtype(self.types[1])

    def reduce(self, inputs: tuple[pl.Expr, ...], where: pl.Expr | None) -> list[pl.Expr]:
        return [self._pick(*self._parts(inputs, where), of=self._row_order(inputs, where))]

    def reduce_orders(self, inputs: tuple[pl.Expr, ...], where: pl.Expr | None) -> list[RowOrder]:
        return [self._row_order(inputs, where)]

    def combine(self) -> list[pl.Expr]:
        return [self._pick(*self._stored, of=self._stored_order)]

    def combine_orders(self) -> list[RowOrder]:
        return [self._stored_order]

    def _parts(self, inputs: tuple[pl.Expr, ...], where: pl.Expr | None) -> tuple[pl.Expr, ...]:
        rank = AT if len(inputs) == 1 else canonical(inputs[1], self.types[1])
        return (taken(rank, where), *self.position, inputs[0])

    def _row_order(self, inputs: tuple[pl.Expr, ...], where: pl.Expr | None) -> RowOrder:
        return self._order(self._parts(inputs, where), "rows")

    @property
    def _stored(self) -> tuple[pl.Expr, ...]:
        return tuple(pl.col(field) for field in self.fields)

    @property
    def _stored_order(self) -> RowOrder:
        return self._order(self._stored, self.name.rpartition(":")[0])  # what is pending has other columns

    def _order(self, parts: tuple[pl.Expr, ...], frame: str) -> RowOrder:
        """The best row first. Aggregates that pick the same rows have one order, if positions tell rows apart."""
        backwards = isinstance(self.aggregate, Last)
        count = len(self.parts)
        descending = (backwards or isinstance(self.aggregate, MaxBy), *[backwards] * (count - 1))
        # A row without rank is not taken, and goes last. A null value is the smallest.
        nulls_last = (True, *[False] * (count - 2), backwards)
        name = [frame, self.aggregate.word, *self.aggregate.inputs[1:], f"where {self.aggregate.where}"]
        # Streams of a union may have rows of one position: then the value decides, where it can be compared.
        keys = count - 1
        if not self.alone:
            keys = count - 1 if self.fields[f"{self.name}.value"].is_nested() else count
            name.append(self.name)
        return RowOrder(f"__order:{' '.join(name)}", parts[:keys], descending[:keys], nulls_last[:keys])

    def _pick(self, *parts: pl.Expr, of: RowOrder) -> pl.Expr:
        row = pl.struct(part.alias(name) for part, name in zip(parts, self.parts, strict=True))
        return of.pick(row).alias(self._picked)

    @property
    def _picked(self) -> str:
        return f"{self.name}.pick"

    def settle(self, frame: pl.DataFrame) -> pl.DataFrame:
        row = pl.col(self._picked).struct
        taken = row.field("rank").is_not_null()
        parts = (pl.when(taken).then(row.field(part)).alias(f"{self.name}.{part}") for part in self.parts)
        return frame.with_columns(parts).drop(self._picked)

    def present_expr(self) -> pl.Expr:
        return pl.col(f"{self.name}.value").alias(self.name)

    def zero(self) -> dict[str, object]:
        return dict.fromkeys(self.fields)
