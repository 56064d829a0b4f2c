"""Exact sums of numbers: what sums, averages and moments are made of, so that no order of adding can show.

Whole numbers add as whole numbers, decimals as decimals, and floats as the fractions that they are. NaN and the
infinities are counted apart, so that taking one back leaves the others.

>>> add(lift(0.1), lift(1e20), lift(-1e20)).value()
0.1
"""

from __future__ import annotations

import decimal
import math
from decimal import Decimal
from fractions import Fraction
from typing import NamedTuple, TypeAlias

Exact: TypeAlias = int | Fraction | Decimal

#: Wide enough for any sum of decimals of 38 digits: adding never rounds.
_WIDE = decimal.Context(prec=120)


class Total(NamedTuple):
    """How many numbers, the sum of the finite ones, and how many were NaN, +∞ and −∞."""

    n: int = 0
    finite: Exact = 0
    nan: int = 0
    up: int = 0
    down: int = 0

    def value(self) -> int | float | Decimal | None:
        """The sum in the numbers' own kind, without bounds; None if there are none."""
        if self.n == 0:
            return None
        if self.nan or (self.up and self.down):
            return math.nan
        if self.up or self.down:
            return math.inf if self.up else -math.inf
        return to_float(self.finite) if isinstance(self.finite, Fraction) else self.finite

    def negated(self) -> Total:
        finite = self.finite.copy_negate() if isinstance(self.finite, Decimal) else -self.finite
        return Total(-self.n, finite, -self.nan, -self.up, -self.down)


def lift(number: int | float | Decimal) -> Total:
    """The total of one number."""
    if not isinstance(number, float):
        return Total(1, number)
    if math.isnan(number):
        return Total(1, Fraction(0), nan=1)
    if math.isinf(number):
        return Total(1, Fraction(0), up=int(number > 0), down=int(number < 0))
    return Total(1, Fraction(number))


def add(*totals: Total) -> Total:
    """The total of all."""
    n, finite, nan, up, down = 0, _ZERO, 0, 0, 0
    for total in totals:
        n, nan, up, down = n + total.n, nan + total.nan, up + total.up, down + total.down
        finite = _plus(finite, total.finite)
    return Total(n, finite, nan, up, down)


_ZERO: Exact = 0


def _plus(a: Exact, b: Exact) -> Exact:
    if isinstance(a, Decimal) or isinstance(b, Decimal):
        if isinstance(a, Fraction) or isinstance(b, Fraction):
            return Fraction(a) + Fraction(b)
        return _WIDE.add(a, b)
    return a + b


def to_float(number: Exact) -> float:
    """The nearest double; ±∞ beyond its range."""
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def unscaled(number: Decimal) -> tuple[int, int]:
    """A decimal as a whole number and the number of its decimals.

    >>> unscaled(Decimal("-1.20"))
    (-120, 2)
    """
    sign, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int)
    whole = int("".join(map(str, digits)) or "0") * 10 ** max(exponent, 0)
    return (-whole if sign else whole), max(-exponent, 0)


def scaled(whole: int, scale: int) -> Decimal | None:
    """The decimal of that many decimals, or None if it has more than 38 digits."""
    return _WIDE.scaleb(Decimal(whole), -scale) if abs(whole) < 10**38 else None
