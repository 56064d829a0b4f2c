"""The value of one row: the first or last in event time, or the one where another value is smallest or largest.

>>> last("status"), max_by("page", "seconds")
(ps.last('status'), ps.max_by('page', 'seconds'))
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from penstock.model.aggregates.base import Aggregate, Origin, Value
from penstock.model.aggregates.extremes import orderable
from penstock.model.aggregates.multiset import FromMultiset
from penstock.model.expressions import Sql, sql_text
from penstock.model.order import Key, exact, key, value_of

#: What the row is picked by, and its value: (event time or by, partition, offset, ordinal, value).
#: The value takes part because streams of a union may have rows of the same position.
Pick: TypeAlias = tuple[int | Key, int, int, int, Key] | None


@dataclass(frozen=True, repr=False)
class _InTime(Aggregate):
    """Partial: the picked row; None before the first. A null is a value like any other, as in Spark's `first`."""

    x: str

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.x,)

    def result_type(self, types: tuple[str, ...]) -> str:
        return types[0]

    def zero(self) -> Pick:
        return None

    def lift(self, values: tuple[Value, ...], origin: Origin) -> Pick:
        return (*origin, exact(values[0]))

    def present(self, p: Pick) -> Value:
        return None if p is None else value_of(p[-1])

    def retractable(self) -> FromMultiset:
        return FromMultiset(self, timed=True, where=self.where)


class First(_InTime):
    """The value of the row of the earliest event time, then partition, then offset."""

    word: ClassVar[str] = "first"

    def merge(self, a: Pick, b: Pick) -> Pick:
        return (b if a is None else a) if a is None or b is None else min(a, b)


class Last(_InTime):
    """The value of the row of the latest event time, then partition, then offset."""

    word: ClassVar[str] = "last"

    def merge(self, a: Pick, b: Pick) -> Pick:
        return (b if a is None else a) if a is None or b is None else max(a, b)


@dataclass(frozen=True, repr=False)
class _By(Aggregate):
    """Partial: the picked row; None before the first. Rows where `by` is null are skipped."""

    x: str
    by: str

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.x, self.by)

    def result_type(self, types: tuple[str, ...]) -> str:
        orderable(self, types[1])
        return types[0]

    def zero(self) -> Pick:
        return None

    def lift(self, values: tuple[Value, ...], origin: Origin) -> Pick:
        x, by = values
        return None if by is None else (key(by), origin.partition, origin.offset, origin.ordinal, exact(x))

    def present(self, p: Pick) -> Value:
        return None if p is None else value_of(p[-1])

    def retractable(self) -> FromMultiset:
        return FromMultiset(self, where=self.where)


class MinBy(_By):
    """The value of `x` where `by` is smallest; of several, the one of the earliest position."""

    word: ClassVar[str] = "min_by"

    def merge(self, a: Pick, b: Pick) -> Pick:
        return (b if a is None else a) if a is None or b is None else min(a, b)


class MaxBy(_By):
    """The value of `x` where `by` is largest; of several, the one of the earliest position."""

    word: ClassVar[str] = "max_by"

    def merge(self, a: Pick, b: Pick) -> Pick:
        if a is None or b is None:
            return b if a is None else a
        if a[0] != b[0]:
            return max(a, b)
        return min(a, b)


def first(x: Sql, *, where: Sql | None = None) -> First:
    """The value at the earliest event time; ties by position in the log. Nulls are values too."""
    return First(sql_text(x), where=sql_text(where))


def last(x: Sql, *, where: Sql | None = None) -> Last:
    """The value at the latest event time; ties by position in the log. Nulls are values too."""
    return Last(sql_text(x), where=sql_text(where))


def min_by(x: Sql, by: Sql, *, where: Sql | None = None) -> MinBy:
    """The value of `x` in the row where `by` is smallest; ties by the earliest position in the log."""
    return MinBy(sql_text(x), sql_text(by), where=sql_text(where))


def max_by(x: Sql, by: Sql, *, where: Sql | None = None) -> MaxBy:
    """The value of `x` in the row where `by` is largest; ties by the earliest position in the log."""
    return MaxBy(sql_text(x), sql_text(by), where=sql_text(where))
