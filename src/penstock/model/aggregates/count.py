"""The number of rows, or of rows in which a value is not null.

>>> count(), count("price", where="price > 10")
(ps.count(), ps.count('price', where='price > 10'))
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from penstock.model.aggregates.base import Aggregate, Origin, Value
from penstock.model.expressions import Sql, sql_text


@dataclass(frozen=True, repr=False)
class Count(Aggregate):
    """Partial: the number so far."""

    word: ClassVar[str] = "count"

    x: str | None = None

    @property
    def inputs(self) -> tuple[str, ...]:
        return () if self.x is None else (self.x,)

    def result_type(self, types: tuple[str, ...]) -> str:
        return "bigint"

    def zero(self) -> int:
        return 0

    def lift(self, values: tuple[Value, ...], origin: Origin) -> int:
        return 0 if values and values[0] is None else 1

    def merge(self, a: int, b: int) -> int:
        return a + b

    def inverse(self, p: int) -> int:
        return -p

    def present(self, p: int) -> int:
        return p

    def retractable(self) -> Count:
        return self


def count(x: Sql | None = None, *, where: Sql | None = None) -> Count:
    """The number of rows; with `x`, of those in which `x` is not null."""
    return Count(sql_text(x), where=sql_text(where))
