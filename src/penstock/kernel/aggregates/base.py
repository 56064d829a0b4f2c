"""An aggregate on columns: rows reduce to partial columns, partial columns combine, and are presented.

The partial's columns are named after the aggregate's column in the view, `name` or `name.part`. Every step works on
whole frames: `reduce` and `combine` are expressions inside one `group_by(…).agg(…)` that many aggregates share.

>>> import polars as pl
>>> from penstock.kernel.aggregates import columns
>>> from penstock.model.aggregates import sum
>>> total = columns(sum("price"), "total", ("int",))
>>> rows = pl.DataFrame({"k": ["a", "a"], "price": [1, 2]}, schema_overrides={"price": pl.Int32})
>>> partials = total.settle(rows.group_by("k").agg(total.reduce((pl.col("price"),), None)))
>>> total.present(partials).to_list()
[3]
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import ClassVar

import polars as pl

from penstock.errors import DefinitionError
from penstock.kernel.aggregates.order import RowOrder, all_places
from penstock.kernel.expressions.dtypes import dtype
from penstock.model.aggregates import Aggregate
from penstock.model.types import is_float

#: Columns that every row frame has: event time in µs, position in the log, and the sign of a signed row.
AT, PARTITION, OFFSET, SIGN = pl.col("__at"), pl.col("__partition"), pl.col("__offset"), pl.col("__sign")
#: The order of rows that were made of one row; only frames in which there are such rows have it.
ORDINAL = pl.col("__ordinal")


class Columns(ABC):
    """One aggregate of one view, on columns.

    Columns that are `signed` take rows with the column `__sign` (+1 inserts, −1 retracts), and can be negated.
    """

    #: Whether the columns that `reduce` and `combine` give must go through `settle`.
    needs_settle: ClassVar[bool] = False

    def __init__(self, aggregate: Aggregate, name: str, types: tuple[str, ...], signed: bool = False) -> None:
        self.aggregate, self.name, self.types, self.signed = aggregate, name, types, signed
        self.result_type = aggregate.result_type(types)
        self.fields = self.partial()

    @abstractmethod
    def partial(self) -> dict[str, pl.DataType]:
        """The columns of a partial, in deltas and in state."""

    @abstractmethod
    def reduce(self, inputs: tuple[pl.Expr, ...], where: pl.Expr | None) -> list[pl.Expr]:
        """Rows of a group → one partial. Inside `group_by(…).agg(…)`."""

    def reduce_small(self, inputs: tuple[pl.Expr, ...], where: pl.Expr | None) -> list[pl.Expr]:
        """The same, for a batch whose values are so small that no Int64 sum of them can overflow."""
        return self.reduce(inputs, where)

    @property
    def bounded(self) -> bool:
        """Whether `reduce_small` is cheaper: it then pays to look at the size of the first input's values."""
        return False

    @abstractmethod
    def combine(self) -> list[pl.Expr]:
        """Partials of a group → one partial. Inside `group_by(…).agg(…)`."""

    def reduce_orders(self, inputs: tuple[pl.Expr, ...], where: pl.Expr | None) -> list[RowOrder]:
        """The orders of rows that `reduce` refers to. The caller adds their places to the frame first."""
        return []

    def combine_orders(self) -> list[RowOrder]:
        """The same for `combine`."""
        return []

    def settle(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Brings the columns that `reduce` or `combine` gave to `fields`."""
        return frame

    def negate(self) -> list[pl.Expr]:
        """The inverse of each partial."""
        raise DefinitionError(
            f"{self.aggregate!r} has no inverse on these columns", hint="make them with signed=True to take rows back"
        )

    @abstractmethod
    def present(self, frame: pl.DataFrame) -> pl.Series:
        """The answers, one for each row of partials, named `name`."""

    def present_expr(self) -> pl.Expr | None:
        """`present` as one expression, where it is one: so that a caller can present many in one select."""
        return None

    @property
    def is_answer(self) -> bool:
        """Whether the partial is also the answer, as with a count: one column does for both."""
        if self.fields.get(self.name) != self.result:
            return False
        answer = self.present_expr()
        return answer is not None and answer.meta.undo_aliases().meta.eq(pl.col(self.name))

    @abstractmethod
    def zero(self) -> dict[str, object]:
        """The partial of no rows, as literal values of `fields`."""

    @property
    def result(self) -> pl.DataType:
        """The type of the answer."""
        return dtype(self.result_type)


class Expressive(Columns):
    """Columns whose answer is an expression."""

    @abstractmethod
    def present_expr(self) -> pl.Expr:
        """The answer, named `name`."""

    def present(self, frame: pl.DataFrame) -> pl.Series:
        return frame.select(self.present_expr()).to_series()


def combine_places(parts: Iterable[Columns]) -> list[pl.Expr]:
    """What a frame of partials needs besides them, before these aggregates combine them in one `agg`."""
    return all_places(order for part in parts for order in part.combine_orders())


def taken(value: pl.Expr, where: pl.Expr | None) -> pl.Expr:
    """The value where the row is taken, null elsewhere. Unlike a filter it keeps Polars on its fast path for groups."""
    return value if where is None else pl.when(where).then(value)


def only(value: pl.Expr, where: pl.Expr | None, *never_null: pl.Expr) -> pl.Expr:
    """The values of the rows that are taken: they pass the filter, and none of these is null. Inside `agg`."""
    conditions = [each.is_not_null() for each in never_null]
    conditions += [] if where is None else [where.fill_null(False)]
    return value.filter(conditions) if conditions else value


def canonical(value: pl.Expr, kind: str) -> pl.Expr:
    """The value with −0.0 as 0.0, as Spark groups it. Polars itself takes every NaN for the same.

    Adding 0.0 would be the usual way, but Polars skips an addition of zero.
    """
    if not is_float(kind):
        return value
    return pl.when(value == 0).then(pl.lit(0.0, dtype=dtype(kind))).otherwise(value)
