"""The order in which rows of a group are picked, as one column of numbers that several aggregates share.

To sort the rows of each group by several columns, for each aggregate again, costs most of a pass. The whole frame is
sorted once instead, and a row is picked by its place in that order: a minimum of whole numbers.

>>> best = RowOrder("__order:v", (pl.col("v"),), (True,), (True,))
>>> frame = pl.DataFrame({"k": ["a", "a", "b"], "v": [1, 3, 2], "x": ["p", "q", "r"]})
>>> picked = frame.with_columns(best.places).group_by("k", maintain_order=True).agg(best.pick(pl.col("x")))
>>> picked.rows()
[('a', 'q'), ('b', 'r')]
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import polars as pl


@dataclass(frozen=True)
class RowOrder:
    """Columns by which rows are in order, the best row first. Orders of one name are the same."""

    name: str
    keys: tuple[pl.Expr, ...]
    descending: tuple[bool, ...]
    nulls_last: tuple[bool, ...]

    @property
    def places(self) -> pl.Expr:
        """The place of each row of a whole frame, in a column of this name."""
        order = pl.arg_sort_by(self.keys, descending=list(self.descending), nulls_last=list(self.nulls_last))
        return order.arg_sort().alias(self.name)

    def pick(self, row: pl.Expr) -> pl.Expr:
        """The best row of a group. Inside `group_by(…).agg(…)`, of a frame that has the places."""
        return row.get(pl.col(self.name).arg_min())


def all_places(orders: Iterable[RowOrder]) -> list[pl.Expr]:
    """The places of the rows of a whole frame, for each order once."""
    return [order.places for order in {order.name: order for order in orders}.values()]
