"""Sums and averages on columns, exact for whole numbers and decimals.

A total is kept as limbs of 32 bits in Int64 columns, the highest one signed: two limbs hold what bigints and decimals
of up to 18 digits add up to, four hold the wider decimals. The two halves of a bigint are added apart, in Int64: over
100 k groups that takes a tenth longer than one sum that may overflow, and a sum in Int128 half as long again.
"""

from __future__ import annotations

import polars as pl

from penstock.kernel.aggregates.base import SIGN, Columns, Expressive, canonical, taken
from penstock.kernel.aggregates.count import counted
from penstock.model.aggregates import Aggregate, Avg
from penstock.model.types import decimal_of, is_float

_LIMB = 1 << 32
_WORD = pl.lit(1 << 64, dtype=pl.Int128)


def sum_columns(aggregate: Aggregate, name: str, types: tuple[str, ...], signed: bool = False) -> Columns:
    """The columns of a sum or an average, by the type of its input."""
    if is_float(types[0]):
        return FloatTotal(aggregate, name, types, signed)
    if types[0].startswith("decimal(") and decimal_of(types[0])[0] > 18:
        return WideTotal(aggregate, name, types, signed)
    return WholeTotal(aggregate, name, types, signed)


class _Total(Expressive):
    """`name.n`: how many values are in it, beside the total's own columns."""

    def __init__(self, aggregate: Aggregate, name: str, types: tuple[str, ...], signed: bool) -> None:
        self.n = pl.col(f"{name}.n")
        super().__init__(aggregate, name, types, signed)

    def part(self, name: str) -> pl.Expr:
        return pl.col(f"{self.name}.{name}")

    def reduce_n(self, value: pl.Expr, where: pl.Expr | None) -> pl.Expr:
        return counted(value, where, self.signed).alias(f"{self.name}.n")

    def zero(self) -> dict[str, object]:
        return dict.fromkeys(self.fields, 0)


class FloatTotal(_Total):
    """`name.sum` in doubles. NaN and infinities add as IEEE says, which is what Spark does."""

    def partial(self) -> dict[str, pl.DataType]:
        return {f"{self.name}.n": pl.Int64(), f"{self.name}.sum": pl.Float64()}

    def reduce(self, inputs: tuple[pl.Expr, ...], where: pl.Expr | None) -> list[pl.Expr]:
        (value,) = inputs
        return [
            self.reduce_n(value, where),
            taken(value, where).cast(pl.Float64).sum().alias(f"{self.name}.sum"),
        ]

    def combine(self) -> list[pl.Expr]:
        return [self.n.sum(), self.part("sum").sum()]

    def present_expr(self) -> pl.Expr:
        total = self.part("sum")
        answer = total / self.n if isinstance(self.aggregate, Avg) else total
        return pl.when(self.n != 0).then(canonical(answer, "double")).alias(self.name)


class WholeTotal(_Total):
    """`name.hi` and `name.lo`: whole numbers, and decimals of up to 18 digits as their unscaled whole numbers."""

    def partial(self) -> dict[str, pl.DataType]:
        return {f"{self.name}.{part}": pl.Int64() for part in ("n", "hi", "lo")}

    def reduce(self, inputs: tuple[pl.Expr, ...], where: pl.Expr | None) -> list[pl.Expr]:
        (value,) = inputs
        if self.types[0] in ("tinyint", "smallint", "int"):
            return self.reduce_small(inputs, where)  # 2³¹ rows of 32 bits stay within Int64
        whole = taken(value, where).to_physical().cast(pl.Int64)
        high, low = whole // _LIMB, whole & (_LIMB - 1)
        if self.signed:
            high, low = high * SIGN, low * SIGN
        return [self.reduce_n(value, where), *self._limbs(high.sum(), low.sum())]

    def reduce_small(self, inputs: tuple[pl.Expr, ...], where: pl.Expr | None) -> list[pl.Expr]:
        (value,) = inputs
        whole = taken(value, where)
        if self.types[0] != "bigint":
            whole = whole.to_physical().cast(pl.Int64)
        total = (whole * SIGN if self.signed else whole).sum()
        return [self.reduce_n(value, where), *self._limbs(pl.lit(0), total)]

    @property
    def bounded(self) -> bool:
        return self.types[0] == "bigint"

    def combine(self) -> list[pl.Expr]:
        return [self.n.sum(), *self._limbs(self.part("hi").sum(), self.part("lo").sum())]

    def _limbs(self, high: pl.Expr, low: pl.Expr) -> list[pl.Expr]:
        """Carries what `low` has beyond 32 bits, or below zero, into `high`."""
        return [(high + low // _LIMB).alias(f"{self.name}.hi"), (low % _LIMB).alias(f"{self.name}.lo")]

    def total(self) -> pl.Expr:
        return self.part("hi").cast(pl.Int128) * _LIMB + self.part("lo")

    def negate(self) -> list[pl.Expr]:
        return [-self.n, *self._limbs(-self.part("hi"), -self.part("lo"))]

    def present_expr(self) -> pl.Expr:
        return pl.when(self.n != 0).then(self._answer(self.total())).alias(self.name)

    def _answer(self, total: pl.Expr) -> pl.Expr:
        decimal = self.types[0].startswith("decimal(")
        if isinstance(self.aggregate, Avg):
            return _decimal_mean(total, self.n, self) if decimal else total.cast(pl.Float64) / self.n
        return _as_decimal(total, self) if decimal else total.cast(pl.Int64, strict=False)


class WideTotal(WholeTotal):
    """`name.l3` … `name.l0`: decimals of more than 18 digits, whose sum may leave even Int128 on the way."""

    def partial(self) -> dict[str, pl.DataType]:
        return {f"{self.name}.{part}": pl.Int64() for part in ("n", "l3", "l2", "l1", "l0")}

    def reduce(self, inputs: tuple[pl.Expr, ...], where: pl.Expr | None) -> list[pl.Expr]:
        (value,) = inputs
        whole = taken(value, where).to_physical()
        high, low = whole // _WORD, whole % _WORD
        if self.signed:
            high, low = high * SIGN, low * SIGN
        return [self.reduce_n(value, where), *self._words(high.sum(), low.sum())]

    def reduce_small(self, inputs: tuple[pl.Expr, ...], where: pl.Expr | None) -> list[pl.Expr]:
        return self.reduce(inputs, where)

    def combine(self) -> list[pl.Expr]:
        return [self.n.sum(), *self._words(*(word.sum() for word in self._pair()))]

    def negate(self) -> list[pl.Expr]:
        high, low = self._pair()
        return [-self.n, *self._words(0 - high, 0 - low)]  # Polars cannot negate Int128

    def _pair(self) -> tuple[pl.Expr, pl.Expr]:
        l3, l2, l1, l0 = (self.part(f"l{i}").cast(pl.Int128) for i in (3, 2, 1, 0))
        return l3 * _LIMB + l2, l1 * _LIMB + l0

    def _words(self, high: pl.Expr, low: pl.Expr) -> list[pl.Expr]:
        high, low = high + low // _WORD, low % _WORD
        limbs = {"l3": high // _LIMB, "l2": high % _LIMB, "l1": low // _LIMB, "l0": low % _LIMB}
        return [limb.cast(pl.Int64).alias(f"{self.name}.{part}") for part, limb in limbs.items()]

    def total(self) -> pl.Expr:
        high, low = self._pair()
        inside = high.is_between(-(10**38) >> 64, 10**38 >> 64)  # beyond, the sum has more than 38 digits
        return pl.when(inside).then(high * _WORD + low)


def _as_decimal(whole: pl.Expr, of: Columns) -> pl.Expr:
    """The whole number as the unscaled digits of the answer; null where it has more than 38."""
    inside = whole.abs() < pl.lit(10**38, dtype=pl.Int128)
    return pl.when(inside).then(whole).reinterpret(dtype=_wide(of)).cast(of.result)


def _wide(of: Columns) -> pl.Decimal:
    return pl.Decimal(38, decimal_of(of.result_type)[1])


def _decimal_mean(total: pl.Expr, n: pl.Expr, of: Columns) -> pl.Expr:
    """The mean with four more decimals than the values have, half away from zero: as Spark divides."""
    up = 10 ** (decimal_of(of.result_type)[1] - decimal_of(of.types[0])[1])
    size, count = total.abs(), n.abs().cast(pl.Int128)
    quotient, rest = size // count, size % count
    rounded = quotient * up + (2 * rest * up + count) // (2 * count)
    signed = rounded * total.sign() * n.sign()
    # Where quotient · up itself would leave Int128 the answer has more than 38 digits anyway.
    inside = quotient < pl.lit(10**38 // up, dtype=pl.Int128)
    return _as_decimal(pl.when(inside).then(signed), of)
