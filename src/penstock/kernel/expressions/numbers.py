"""Numbers on columns. Polars wraps on overflow and knows no division by zero, so each rule says where it fails.

>>> import polars as pl
>>> from penstock.model.expressions.tree import Call, Column, Literal
>>> call = Call("add", (Column("a", "int"), Literal(1, "int")), "int")
>>> result = NUMBERS["add"](call, pl.col("a"), pl.lit(1, pl.Int32))
>>> pl.select(a=pl.Series([1, 2147483647], dtype=pl.Int32)).select(result.fails).to_series().to_list()
[False, True]
"""

from __future__ import annotations

import math
from typing import Final

import polars as pl

from penstock.kernel.expressions.dtypes import dtype
from penstock.kernel.expressions.outcome import Outcome, Rule
from penstock.model.expressions.coerce import is_decimal
from penstock.model.expressions.tree import Call, Column, Literal, Node
from penstock.model.types import INTEGERS, is_float, is_integer

_ZERO = "division by zero"
#: The next wider type, in which a result of two narrow numbers is exact.
_WIDER = {"tinyint": pl.Int16, "smallint": pl.Int32, "int": pl.Int64, "bigint": pl.Int128}


def _overflow(call: Call, value: pl.Expr, fails: pl.Expr) -> Outcome:
    return Outcome(value, fails, f"overflow of {call.type}")


def _bounds(kind: str) -> tuple[int, int]:
    half = 1 << (INTEGERS[kind] - 1)
    return -half, half - 1


def _whole(node: Node) -> int | None:
    """The value of a whole constant."""
    return node.value if isinstance(node, Literal) and isinstance(node.value, int) else None


def _add(call: Call, left: pl.Expr, right: pl.Expr) -> Outcome | pl.Expr:
    if is_decimal(call.type):
        return (left.cast(dtype(call.type)) + right.cast(dtype(call.type))).cast(dtype(call.type))
    if is_float(call.type):
        zeros = [_is_zero(node) for node in call.args]
        return left + right if not any(zeros) else _without_minus_zero(left if zeros[1] else right)
    for other, node in ((left, call.args[1]), (right, call.args[0])):
        if (constant := _whole(node)) is not None:
            low, high = _bounds(call.type)
            edge = pl.lit(high - constant if constant >= 0 else low - constant, dtype=dtype(call.type))
            return _overflow(call, left + right, other > edge if constant >= 0 else other < edge)
    total = left + right
    if call.type == "bigint":
        return _overflow(call, total, ((left ^ total) & (right ^ total)) < 0)
    return _overflow(call, total, _widened(call, left) + _widened(call, right) != _widened(call, total))


def _is_zero(node: Node) -> bool:
    return isinstance(node, Literal) and node.value == 0 and math.copysign(1, node.value) > 0


def _without_minus_zero(value: pl.Expr) -> pl.Expr:
    """The value plus zero. Polars does not compute an addition of a constant zero, which makes 0.0 of -0.0."""
    return pl.when(value == 0).then(value.abs()).otherwise(value)


def _subtract(call: Call, left: pl.Expr, right: pl.Expr) -> Outcome | pl.Expr:
    if is_decimal(call.type):
        return (left.cast(dtype(call.type)) - right.cast(dtype(call.type))).cast(dtype(call.type))
    if is_float(call.type):
        return _without_minus_zero(-right) if _is_zero(call.args[0]) else left - right
    constant = _whole(call.args[1])
    low, high = _bounds(call.type)
    if constant is not None:
        edge = pl.lit(low + constant if constant >= 0 else high + constant, dtype=dtype(call.type))
        return _overflow(call, left - right, left < edge if constant >= 0 else left > edge)
    rest = left - right
    if call.type == "bigint":
        return _overflow(call, rest, ((left ^ right) & (left ^ rest)) < 0)
    return _overflow(call, rest, _widened(call, left) - _widened(call, right) != _widened(call, rest))


def _multiply(call: Call, left: pl.Expr, right: pl.Expr) -> Outcome | pl.Expr:
    if is_decimal(call.type):
        return (left.to_physical() * right.to_physical()).reinterpret(dtype=dtype(call.type))
    if is_float(call.type):
        return left * right
    product = left * right
    return _overflow(call, product, _widened(call, left) * _widened(call, right) != _widened(call, product))


def _widened(call: Call, value: pl.Expr) -> pl.Expr:
    return value.cast(_WIDER[call.type])


def exact_divide(left: pl.Expr, right: pl.Expr) -> pl.Expr:
    """The division of IEEE 754. By one number for all rows, Polars multiplies with its inverse: not the same."""
    return left / (left.is_null().cast(pl.Float64) + right)


def _divide(call: Call, left: pl.Expr, right: pl.Expr) -> Outcome:
    divisor = call.args[1]
    if isinstance(divisor, Literal) and isinstance(divisor.value, float) and divisor.value != 0:
        halves = abs(math.frexp(divisor.value)[0]) == 0.5  # the inverse of a power of two is exact
        return Outcome(left / right if halves else exact_divide(left, right))
    plain = isinstance(divisor.args[0] if isinstance(divisor, Call) and divisor.name == "cast" else divisor, Column)
    value = left / right if plain else exact_divide(left, right)
    return Outcome(value, (right == 0) & left.is_not_null(), _ZERO)


def _int_divide(call: Call, left: pl.Expr, right: pl.Expr) -> Outcome:
    value = left.truncdiv(right)
    if _whole(call.args[1]) not in (None, 0, -1):
        return Outcome(value)
    zero = (right == 0) & left.is_not_null()
    too_large = (right == -1) & (left == _bounds(call.type)[0])
    reason = pl.when(zero).then(pl.lit(_ZERO)).otherwise(pl.lit(f"overflow of {call.type}"))
    return Outcome(value, zero | too_large, reason)


def _remainder(call: Call, left: pl.Expr, right: pl.Expr) -> Outcome:
    """The sign is that of the dividend; Polars' own remainder has the divisor's."""
    value = left - left.truncdiv(right) * right
    if _whole(call.args[1]):
        return Outcome(value)
    return Outcome(value, (right == 0) & left.is_not_null(), _ZERO)


def _pmod(call: Call, left: pl.Expr, right: pl.Expr) -> Outcome:
    """The sum of remainder and divisor wraps around, as in Java, where it is an int in narrower types."""
    rest = _remainder(call, left, right)
    if call.type in ("tinyint", "smallint"):
        wide, divisor = rest.value.cast(pl.Int32), right.cast(pl.Int32)
        shifted = _remainder(call, wide + divisor, divisor).value.cast(dtype(call.type))
    else:
        shifted = _remainder(call, rest.value + right, right).value
    return Outcome(pl.when(rest.value < 0).then(shifted).otherwise(rest.value), rest.fails, rest.reason)


def _negative(call: Call, value: pl.Expr) -> Outcome | pl.Expr:
    return _overflow(call, -value, value == _bounds(call.type)[0]) if is_integer(call.type) else -value


def _abs(call: Call, value: pl.Expr) -> Outcome | pl.Expr:
    return _overflow(call, value.abs(), value == _bounds(call.type)[0]) if is_integer(call.type) else value.abs()


def _to_bigint(call: Call, rounded: pl.Expr) -> Outcome:
    """ceil and floor: NaN gives 0, and 2⁶³ itself is taken for the largest bigint."""
    largest = pl.lit((1 << 63) - 1, dtype=pl.Int64)
    value = pl.when(rounded.is_nan()).then(pl.lit(0, dtype=pl.Int64)).when(rounded == 2.0**63).then(largest)
    fails = (rounded.is_not_nan()) & ((rounded > 2.0**63) | (rounded < -(2.0**63)))
    return _overflow(call, value.otherwise(rounded.cast(pl.Int64, strict=False)), fails)


def _round(call: Call, value: pl.Expr, _: pl.Expr) -> pl.Expr:
    """Half away from zero, of the decimal text of the double.

    Up to 15 digits, the middle between two results is a decimal with a double of its own, and comparing with that is
    enough. With 18 digits before the place, there is nothing to round. Only between the two the text is really made.
    """
    places = _whole(call.args[1])
    assert places is not None
    scale = pl.lit(10.0**places)
    size = value.abs() * scale
    below = size.floor()
    up = value.abs() >= exact_divide(below + 0.5, scale)
    rounded = exact_divide(below + up.cast(pl.Float64), scale)
    signed = pl.when((value < 0) & (rounded != 0)).then(-rounded).otherwise(rounded)
    long = pl.when((size >= 1e14) & (size < 1e18)).then(value).otherwise(None)
    return pl.when(size < 1e14).then(signed).otherwise(pl.coalesce(_round_text(long, places), value))


def _round_text(value: pl.Expr, places: int) -> pl.Expr:
    digits = value.cast(pl.String).str.to_decimal(scale=places + 4).to_physical()
    size = (digits.abs() + 5_000) // 10_000
    signed = pl.when(digits < 0).then(size * -1).otherwise(size)
    return signed.reinterpret(dtype=pl.Decimal(38, places)).cast(pl.String).cast(pl.Float64)


def _positive_only(value: pl.Expr, result: pl.Expr) -> pl.Expr:
    """Logarithms are null at and below zero."""
    return pl.when(value > 0).then(result).otherwise(None)


def _log(_: Call, base: pl.Expr, value: pl.Expr) -> pl.Expr:
    return pl.when((base > 0) & (value > 0)).then(value.log() / base.log()).otherwise(None)


def _pow(call: Call, base: pl.Expr, exponent: pl.Expr) -> pl.Expr:
    """C's pow says 1 where Java's says NaN; and Polars takes the square root for a constant 0.5."""
    if isinstance(call.args[1], Literal) and call.args[1].value == 0.5:
        return pl.when(base == -math.inf).then(pl.lit(math.inf)).otherwise(_without_minus_zero(base.sqrt()))
    odd = base.is_not_null() & (exponent.is_nan() | ((base.abs() == 1) & exponent.is_infinite()))
    return pl.when(odd).then(pl.lit(math.nan)).otherwise(base.pow(exponent))


NUMBERS: Final[dict[str, Rule]] = {
    "add": _add, "subtract": _subtract, "multiply": _multiply, "divide": _divide, "int_divide": _int_divide,
    "remainder": _remainder, "pmod": _pmod, "negative": _negative, "positive": lambda _, value: value, "abs": _abs,
    "ceil": lambda call, value: _to_bigint(call, value.ceil()),
    "floor": lambda call, value: _to_bigint(call, value.floor()),
    "round": _round, "sqrt": lambda _, value: value.sqrt(), "exp": lambda _, value: value.exp(),
    "ln": lambda _, value: _positive_only(value, value.log()),
    "log10": lambda _, value: _positive_only(value, value.log10()),
    "log2": lambda _, value: _positive_only(value, value.log(2.0)),
    "log": _log, "pow": _pow, "sign": lambda _, value: value.sign(),
}  # fmt: skip
