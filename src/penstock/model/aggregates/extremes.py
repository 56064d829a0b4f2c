"""The smallest and the largest value, in Spark's order: NaN is above every number.

>>> min("price"), max("at")
(ps.min('price'), ps.max('at'))
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from penstock.model.aggregates.base import Aggregate, Origin, Value, refuse_type
from penstock.model.aggregates.multiset import FromMultiset
from penstock.model.expressions import Sql, sql_text
from penstock.model.order import Key, key, value_of


@dataclass(frozen=True, repr=False)
class _Extreme(Aggregate):
    """Partial: the key of the extreme so far; None before the first. Of 0.0 and −0.0 the answer is 0.0."""

    x: str

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.x,)

    def result_type(self, types: tuple[str, ...]) -> str:
        return orderable(self, types[0])

    def zero(self) -> Key | None:
        return None

    def lift(self, values: tuple[Value, ...], origin: Origin) -> Key | None:
        return None if values[0] is None else key(values[0])

    def present(self, p: Key | None) -> Value:
        return None if p is None else value_of(p)

    def retractable(self) -> FromMultiset:
        return FromMultiset(self, where=self.where)


class Min(_Extreme):
    """The smallest value that is not null; null if there is none."""

    word: ClassVar[str] = "min"

    def merge(self, a: Key | None, b: Key | None) -> Key | None:
        if a is None or b is None:
            return b if a is None else a
        return a if a <= b else b


class Max(_Extreme):
    """The largest value that is not null; null if there is none."""

    word: ClassVar[str] = "max"

    def merge(self, a: Key | None, b: Key | None) -> Key | None:
        if a is None or b is None:
            return b if a is None else a
        return a if a >= b else b


def orderable(aggregate: Aggregate, kind: str) -> str:
    """The type, if its values can be compared on columns."""
    if kind.startswith(("array<", "struct<", "map<")):
        raise refuse_type(aggregate, kind, "numbers, text, binary, booleans, dates and timestamps")
    return kind


def min(x: Sql, *, where: Sql | None = None) -> Min:
    """The smallest value that is not null."""
    return Min(sql_text(x), where=sql_text(where))


def max(x: Sql, *, where: Sql | None = None) -> Max:
    """The largest value that is not null."""
    return Max(sql_text(x), where=sql_text(where))
