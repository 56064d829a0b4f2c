"""What each function of the tree makes of its values: comparison, numbers and time. Text is in `text`.

>>> from penstock.model.expressions.tree import Call
>>> VALUES["pmod"](Call("pmod", (), "int"), -7, 3)
2
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any, Final

from penstock.errors import RowError
from penstock.model.expressions import calendar
from penstock.model.expressions.calendar import DAY
from penstock.model.expressions.casts import cast_value, in_range, in_timestamp, single
from penstock.model.expressions.nested_values import NESTED_VALUES
from penstock.model.expressions.text import TEXT
from penstock.model.expressions.tree import Call
from penstock.model.time import SECOND
from penstock.model.types import is_integer

Value = Callable[..., Any]
_EXACT = Context(prec=100)


def same(left: Any, right: Any) -> bool:
    """Equality of two values that are not null. NaN equals itself."""
    return bool(left == right or (left != left and right != right))


def less(left: Any, right: Any) -> bool:
    """The order of two values that are not null. NaN is above all; texts compare by their bytes in UTF-8."""
    if isinstance(left, float) and isinstance(right, float):
        return left < right or (not math.isnan(left) and math.isnan(right))
    return bool(left < right)


def _checked(name: str, compute: Callable[[Any, Any], Any]) -> Value:
    """Arithmetic in the type of the call: whole numbers must fit, floats are rounded, decimals are exact."""

    def value(call: Call, left: Any, right: Any) -> Any:
        if isinstance(left, Decimal):
            return getattr(_EXACT, name)(left, right)
        result = compute(left, right)
        if is_integer(call.type):
            return in_range(result, call.type, f"overflow of {call.type}")
        return single(result) if call.type == "float" else result

    return value


def _remainder(_: Call, left: int, right: int) -> int:
    """The sign is that of the dividend."""
    if right == 0:
        raise RowError("division by zero")
    return abs(left) % abs(right) * (-1 if left < 0 else 1)


def _pmod(call: Call, left: int, right: int) -> int:
    """Not negative, if the divisor is not."""
    remainder = _remainder(call, left, right)
    if remainder >= 0:
        return remainder
    # As in Java, the sum wraps around in an int and a bigint, and is computed as an int in narrower types.
    half = 1 << (63 if call.type == "bigint" else 31)
    return _remainder(call, (remainder + right + half) % (2 * half) - half, right)


def _divide(_: Call, left: float, right: float) -> float:
    if right == 0:
        raise RowError("division by zero")
    return left / right


def _int_divide(call: Call, left: int, right: int) -> int:
    if right == 0:
        raise RowError("division by zero")
    return in_range(abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1), "bigint", "overflow of bigint")


def _negative(call: Call, value: Any) -> Any:
    return (
        in_range(-value, call.type, f"overflow of {call.type}")
        if is_integer(call.type)
        else value.copy_negate()
        if isinstance(value, Decimal)
        else -value
    )


def _abs(call: Call, value: Any) -> Any:
    return in_range(abs(value), call.type, f"overflow of {call.type}") if is_integer(call.type) else abs(value)


def _whole(rounded: Callable[[float], int]) -> Value:
    """ceil and floor of a double; NaN gives 0."""

    def value(_: Call, number: float) -> int:
        if math.isnan(number):
            return 0
        if math.isinf(number):
            raise RowError("overflow of bigint")
        return in_range(rounded(number), "bigint", "overflow of bigint")

    return value


def _round(_: Call, value: float, places: int) -> float:
    """Half away from zero, of the shortest decimal text of the double."""
    if not math.isfinite(value):
        return value
    exact = Decimal(repr(value))
    return float(exact.quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP, Context(prec=1000))) + 0.0


def _total(function: Callable[[float], float]) -> Value:
    """A function of doubles whose overflow is infinite and whose undefined values are NaN, as in Java."""

    def value(_: Call, number: float) -> float:
        try:
            return function(number)
        except OverflowError:
            return math.inf
        except ValueError:
            return math.nan

    return value


def _logarithm(function: Callable[[float], float]) -> Value:
    """Null at and below zero."""
    return lambda _, number: None if number <= 0 else function(number)


def _log(_: Call, base: float, number: float) -> float | None:
    if base <= 0 or number <= 0:
        return None
    above, below = math.log(number), math.log(base)
    if below == 0:
        return math.nan if above == 0 or math.isnan(above) else math.copysign(math.inf, above) * math.copysign(1, below)
    return above / below


def _pow(_: Call, base: float, exponent: float) -> float:
    if math.isnan(exponent) or (abs(base) == 1 and math.isinf(exponent)):
        return math.nan
    try:
        return math.pow(base, exponent)
    except OverflowError:
        return -math.inf if base < 0 and exponent % 2 == 1 else math.inf
    except ValueError:
        if base != 0:
            return math.nan
        return math.copysign(math.inf, base) if exponent % 2 == 1 else math.inf


def _sign(_: Call, number: float) -> float:
    return number if number == 0 or math.isnan(number) else math.copysign(1.0, number)


def _extreme(wins: Callable[[Any, Any], bool]) -> Value:
    """The first of the best values, nulls left out."""

    def value(_: Call, *values: Any) -> Any:
        best = None
        for candidate in values:
            if candidate is not None and (best is None or wins(candidate, best)):
                best = candidate
        return best

    return value


def _date_trunc(_: Call, unit: str, micros: int) -> int:
    return in_timestamp(calendar.truncate(micros, unit), "date_trunc")


def _wrapped_day(day: int) -> int:
    """Spark does not check that a date stays within its 32 bits."""
    return (day + (1 << 31)) % (1 << 32) - (1 << 31)


def _scaled(unit: int, what: str) -> Value:
    return lambda _, count: in_timestamp(count * unit, what)


VALUES: Final[dict[str, Value]] = {
    **TEXT,
    **NESTED_VALUES,
    "cast": lambda call, value: cast_value(value, call.args[0].type, call.type),
    # comparison
    "eq": lambda _, left, right: same(left, right),
    "lt": lambda _, left, right: less(left, right), "ge": lambda _, left, right: not less(left, right),
    "gt": lambda _, left, right: less(right, left), "le": lambda _, left, right: not less(right, left),
    "same": lambda _, left, right: left is right if left is None or right is None else same(left, right),
    "not": lambda _, value: not value,
    "is_null": lambda _, value: value is None, "is_nan": lambda _, value: value is not None and math.isnan(value),
    "is_true": lambda _, value: value is True, "is_false": lambda _, value: value is False,
    "greatest": _extreme(lambda candidate, best: less(best, candidate)), "least": _extreme(less),
    # numbers
    "add": _checked("add", lambda left, right: left + right),
    "subtract": _checked("subtract", lambda left, right: left - right),
    "multiply": _checked("multiply", lambda left, right: left * right),
    "divide": _divide, "int_divide": _int_divide, "remainder": _remainder, "pmod": _pmod,
    "negative": _negative, "positive": lambda _, value: value, "abs": _abs,
    "ceil": _whole(math.ceil), "floor": _whole(math.floor), "round": _round,
    "sqrt": _total(math.sqrt), "exp": _total(math.exp), "pow": _pow, "sign": _sign,
    "ln": _logarithm(math.log), "log10": _logarithm(math.log10), "log2": _logarithm(math.log2), "log": _log,
    # time
    "date_trunc": _date_trunc, "trunc": lambda _, day, unit: _wrapped_day(calendar.truncate_day(day, unit)),
    "year": lambda _, day: calendar.civil(day)[0], "month": lambda _, day: calendar.civil(day)[1],
    "day": lambda _, day: calendar.civil(day)[2], "quarter": lambda _, day: (calendar.civil(day)[1] + 2) // 3,
    "dayofyear": lambda _, day: day - calendar.truncate_day(day, "YEAR") + 1,
    "dayofweek": lambda _, day: (day + 4) % 7 + 1, "weekday": lambda _, day: (day + 3) % 7,
    "weekofyear": lambda _, day: calendar.week_of_year(day),
    "hour": lambda _, micros: micros % DAY // (3600 * SECOND), "minute": lambda _, micros: micros // (60 * SECOND) % 60,
    "second": lambda _, micros: micros // SECOND % 60,
    "date_add": lambda _, day, count: _wrapped_day(day + count),
    "date_subtract": lambda _, day, count: _wrapped_day(day - count),
    "date_diff": lambda _, end, start: _wrapped_day(end - start), "unix_date": lambda _, day: day,
    "unix_micros": lambda _, micros: micros, "unix_millis": lambda _, micros: micros // 1_000,
    "unix_seconds": lambda _, micros: micros // SECOND,
    "unix_timestamp": lambda _, micros: abs(micros) // SECOND * (-1 if micros < 0 else 1),
    "timestamp_micros": lambda _, count: count, "timestamp_millis": _scaled(1_000, "timestamp_millis"),
    "timestamp_seconds": _scaled(SECOND, "timestamp_seconds"),
    "timestamp_add": lambda _, micros, length: in_timestamp(micros + length, "timestamp + interval"),
    "timestamp_subtract": lambda _, micros, length: in_timestamp(micros - length, "timestamp - interval"),
}  # fmt: skip
