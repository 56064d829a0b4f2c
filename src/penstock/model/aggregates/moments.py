"""Variance and standard deviation, of a sample or of all.

>>> variance("latency"), stddev_pop("latency")
(ps.variance('latency'), ps.stddev_pop('latency'))
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import ClassVar, NamedTuple, Self

from penstock.model import types as kinds
from penstock.model.aggregates import exact
from penstock.model.aggregates.base import Aggregate, Origin, Value, refuse_type
from penstock.model.expressions import Sql, sql_text


class Powers(NamedTuple):
    """How many numbers, the exact sums of the finite ones and of their squares, and how many are not finite."""

    n: int = 0
    sum: Fraction = Fraction(0)
    squares: Fraction = Fraction(0)
    unbounded: int = 0


@dataclass(frozen=True, repr=False)
class Moments(Aggregate):
    """Partial: the powers' sums. Null if there are no values; a sample needs two."""

    #: What to take from the count before dividing, and whether the answer is the square root.
    fewer: ClassVar[int]
    root: ClassVar[bool]

    x: str

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.x,)

    def result_type(self, types: tuple[str, ...]) -> str:
        if not kinds.is_numeric(types[0]):
            raise refuse_type(self, types[0], "numbers", hint=f"cast it, for example: cast({self.x} AS double)")
        return "double"

    def zero(self) -> Powers:
        return Powers()

    def lift(self, values: tuple[Value, ...], origin: Origin) -> Powers:
        (number,) = values
        if number is None:
            return Powers()
        assert isinstance(number, (int, float, Decimal)), number
        double = float(number)
        if not math.isfinite(double):
            return Powers(1, unbounded=1)
        fraction = Fraction(double)
        return Powers(1, fraction, fraction * fraction)

    def merge(self, a: Powers, b: Powers) -> Powers:
        return Powers(a.n + b.n, a.sum + b.sum, a.squares + b.squares, a.unbounded + b.unbounded)

    def inverse(self, p: Powers) -> Powers:
        return Powers(-p.n, -p.sum, -p.squares, -p.unbounded)

    def present(self, p: Powers) -> float | None:
        if p.n == 0 or p.n == self.fewer:
            return None
        if p.unbounded:
            return math.nan
        variance = exact.to_float((p.squares - p.sum * p.sum / p.n) / (p.n - self.fewer))
        return math.sqrt(variance) if self.root else variance

    def retractable(self) -> Self:
        return self


class Variance(Moments):
    """The variance of a sample."""

    word: ClassVar[str] = "variance"
    fewer, root = 1, False


class VarPop(Moments):
    """The variance of all values."""

    word: ClassVar[str] = "var_pop"
    fewer, root = 0, False


class Stddev(Moments):
    """The standard deviation of a sample."""

    word: ClassVar[str] = "stddev"
    fewer, root = 1, True


class StddevPop(Moments):
    """The standard deviation of all values."""

    word: ClassVar[str] = "stddev_pop"
    fewer, root = 0, True


def variance(x: Sql, *, where: Sql | None = None) -> Variance:
    """The variance of a sample: divides by one less than the count. Null below two values."""
    return Variance(sql_text(x), where=sql_text(where))


def var_pop(x: Sql, *, where: Sql | None = None) -> VarPop:
    """The variance of all values."""
    return VarPop(sql_text(x), where=sql_text(where))


def stddev(x: Sql, *, where: Sql | None = None) -> Stddev:
    """The standard deviation of a sample. Null below two values."""
    return Stddev(sql_text(x), where=sql_text(where))


def stddev_pop(x: Sql, *, where: Sql | None = None) -> StddevPop:
    """The standard deviation of all values."""
    return StddevPop(sql_text(x), where=sql_text(where))
