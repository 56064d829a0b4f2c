"""Sum and average of numbers, exact whatever the order.

A sum that leaves the range of its type is null, as with Spark's `try_sum`: a view does not stop for one key.

>>> sum("price"), avg("price", where="country = 'CH'")
(ps.sum('price'), ps.avg('price', where="country = 'CH'"))
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import ClassVar, Self

from penstock.model import types as kinds
from penstock.model.aggregates import exact
from penstock.model.aggregates.base import Aggregate, Origin, Value, refuse_type
from penstock.model.aggregates.exact import Total
from penstock.model.expressions import Sql, sql_text

_BIGINT = range(-(1 << 63), 1 << 63)


@dataclass(frozen=True, repr=False)
class _Totalled(Aggregate):
    """Partial: the exact total and how many numbers are in it."""

    x: str

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.x,)

    def _numeric(self, types: tuple[str, ...]) -> str:
        if not kinds.is_numeric(types[0]):
            raise refuse_type(self, types[0], "numbers", hint=f"cast it, for example: cast({self.x} AS double)")
        return types[0]

    def zero(self) -> Total:
        return Total()

    def lift(self, values: tuple[Value, ...], origin: Origin) -> Total:
        (number,) = values
        if number is None:
            return Total()
        assert isinstance(number, (int, float, Decimal)), number
        return exact.lift(number)

    def merge(self, a: Total, b: Total) -> Total:
        return exact.add(a, b)

    def inverse(self, p: Total) -> Total:
        return p.negated()

    def retractable(self) -> Self:
        return self


class Sum(_Totalled):
    """The sum of the values that are not null; null if there are none, and where it overflows."""

    word: ClassVar[str] = "sum"

    def result_type(self, types: tuple[str, ...]) -> str:
        kind = self._numeric(types)
        if kinds.is_integer(kind):
            return "bigint"
        if kinds.is_float(kind):
            return "double"
        precision, scale = kinds.decimal_of(kind)
        return f"decimal({min(38, precision + 10)},{scale})"

    def present(self, p: Total) -> int | float | Decimal | None:
        value = p.value()
        if isinstance(value, int):
            return value if value in _BIGINT else None
        if isinstance(value, Decimal):
            return exact.scaled(*exact.unscaled(value))
        return value


class Avg(_Totalled):
    """The mean of the values that are not null; null if there are none."""

    word: ClassVar[str] = "avg"

    def result_type(self, types: tuple[str, ...]) -> str:
        kind = self._numeric(types)
        if not kind.startswith("decimal("):
            return "double"
        precision, scale = kinds.decimal_of(kind)
        return f"decimal({min(38, precision + 4)},{min(38, scale + 4)})"

    def present(self, p: Total) -> float | Decimal | None:
        if p.n == 0:
            return None
        if isinstance(p.finite, Decimal):
            return _decimal_mean(p.finite, p.n)
        if p.nan or p.up or p.down:
            value = p.value()
            assert isinstance(value, float)
            return value
        return exact.to_float(Fraction(p.finite) / p.n)


def _decimal_mean(total: Decimal, n: int) -> Decimal | None:
    """The mean with four more decimals than the values have, half away from zero: as Spark divides."""
    whole, scale = exact.unscaled(total)
    more, count = min(4, 38 - scale), abs(n)
    quotient, rest = divmod(abs(whole), count)
    rounded = quotient * 10**more + (2 * rest * 10**more + count) // (2 * count)
    return exact.scaled(rounded if (whole < 0) == (n < 0) else -rounded, scale + more)


def sum(x: Sql, *, where: Sql | None = None) -> Sum:
    """The sum of the values that are not null."""
    return Sum(sql_text(x), where=sql_text(where))


def avg(x: Sql, *, where: Sql | None = None) -> Avg:
    """The mean of the values that are not null."""
    return Avg(sql_text(x), where=sql_text(where))
