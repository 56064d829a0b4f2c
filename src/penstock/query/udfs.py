"""Python functions for DuckDB, where its own do not equal Spark's: the specification of expressions, by columns.

They fail with a `RowError`, or with `try_` before the name give a null. Dates come as days and timestamps as
microseconds since 1970, decimals as texts.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

import duckdb
import pyarrow as pa
from duckdb.func import FunctionNullHandling, PythonUDFType

from penstock.errors import RowError
from penstock.model.expressions import calendar
from penstock.model.expressions.casts import BLANKS, cast_value, round_float
from penstock.model.expressions.tree import Call
from penstock.model.expressions.values import VALUES
from penstock.query.formats import DAYS, MONTHS, format_micros

_EXACT = Context(prec=120)
#: The digits to which Spark rounds a product before it looks at the type.
_SHORT = Context(prec=38, rounding=ROUND_HALF_UP)
_ARROW = {
    "VARCHAR": pa.string(), "BIGINT": pa.int64(), "INTEGER": pa.int32(), "DOUBLE": pa.float64(), "FLOAT": pa.float32(),
    "BOOLEAN": pa.bool_(), "DOUBLE[]": pa.list_(pa.float64()), "VARCHAR[]": pa.list_(pa.string()),
}  # fmt: skip


def _spec(name: str, kind: str = "string") -> Callable[..., Any]:
    """A function as the specification of expressions has it."""
    call, compute = Call(name, (), kind), VALUES[name]
    return lambda *args: compute(call, *args)


def _read(kind: str) -> Callable[[str], Any]:
    return lambda text: cast_value(text, "string", kind)


def _fitted(value: Decimal, precision: int, scale: int) -> str:
    rounded = value.quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP, _EXACT)
    if abs(rounded).scaleb(scale, _EXACT) >= 10**precision:
        raise RowError(f"the decimal does not fit decimal({precision},{scale})")
    return f"{rounded:f}"


def _decimal_divide(left: str, right: str, precision: int, scale: int) -> str:
    """Spark divides to 38 places, and rounds the result once more to the scale."""
    divisor = Decimal(right)
    if divisor == 0:
        raise RowError("division by zero")
    wide = (
        Context(prec=200)
        .divide(Decimal(left), divisor)
        .quantize(Decimal(1).scaleb(-38), ROUND_HALF_UP, Context(prec=200))
    )
    return _fitted(wide, precision, scale)


def _decimal_div(left: str, right: str) -> int:
    if Decimal(right) == 0:
        raise RowError("division by zero")
    whole = int(Context(prec=200).divide_int(Decimal(left), Decimal(right)))
    if not -(1 << 63) <= whole < 1 << 63:
        raise RowError("overflow of bigint")
    return whole


def _decimal_remainder(left: str, right: str, precision: int, scale: int) -> str:
    if Decimal(right) == 0:
        raise RowError("division by zero")
    return _fitted(Context(prec=200).remainder(Decimal(left), Decimal(right)), precision, scale)


def _decimal_multiply(left: str, right: str, precision: int, scale: int) -> str:
    return _fitted(_SHORT.multiply(Decimal(left), Decimal(right)), precision, scale)


def _decimal_add(left: str, right: str, precision: int, scale: int) -> str:
    return _fitted(_EXACT.add(Decimal(left), Decimal(right)), precision, scale)


def _decimal_round(value: str, places: int, precision: int, scale: int) -> str:
    rounded = Decimal(value).quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP, _EXACT)
    return _fitted(rounded, precision, scale)


def _text_to_decimal(text: str, precision: int, scale: int) -> str:
    try:
        value = Decimal(text.strip(BLANKS))
    except ArithmeticError:
        raise RowError(f"'{text[:60]}' is not of type decimal") from None
    if not value.is_finite() or "_" in text or value.adjusted() > 100:
        raise RowError(f"'{text[:60]}' is not of type decimal({precision},{scale})")
    return _fitted(value, precision, scale)


def _double_to_decimal(value: float, precision: int, scale: int) -> str:
    if not math.isfinite(value):
        raise RowError(f"{value} is not of type decimal")
    return _fitted(Decimal(repr(value)), precision, scale)


def _float_to_decimal(value: float, precision: int, scale: int) -> str:
    if not math.isfinite(value):
        raise RowError(f"{value} is not of type decimal")
    return _fitted(Decimal(_shortest(value)), precision, scale)


def _shortest(value: float) -> str:
    """The shortest text of a 32-bit float."""
    for digits in range(1, 10):
        text = f"{value:.{digits}g}"
        if round_float(Decimal(text), "float") == value:
            return text
    return repr(value)


def _show(value: float, digits: str) -> str:
    """A floating-point number as Java writes it."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0:
        return "-0.0" if math.copysign(1, value) < 0 else "0.0"
    exact = Decimal(digits)
    sign = "-" if value < 0 else ""
    if 1e-3 <= abs(value) < 1e7:
        text = f"{abs(exact):f}"
        return sign + (text if "." in text else text + ".0")
    figures = "".join(map(str, exact.as_tuple().digits)).rstrip("0") or "0"
    return f"{sign}{figures[0]}.{figures[1:] or '0'}E{exact.adjusted()}"


def show_double(value: float) -> str:
    """
    >>> show_double(1e10), show_double(0.001), show_double(123456.0), show_double(-1.5e-7)
    ('1.0E10', '0.001', '123456.0', '-1.5E-7')
    """
    return _show(value, repr(value))


def _show_float(value: float) -> str:
    return _show(value, _shortest(value) if math.isfinite(value) and value else "0")


def _round_double(value: float, places: int) -> float:
    if not math.isfinite(value):
        return value
    return float(Decimal(repr(value)).quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP, Context(prec=1000))) + 0.0


def _round_whole(value: int, places: int) -> int:
    rounded = int(Decimal(value).quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP, _EXACT))
    if not -(1 << 63) <= rounded < 1 << 63:
        raise RowError("overflow of bigint")
    return rounded


def _months_elapsed(start: int, end: int, unit: int) -> int:
    """Whole months between two instants, toward zero."""
    (first, of_first), (last, of_last) = divmod(start, calendar.DAY), divmod(end, calendar.DAY)
    (y1, m1, d1), (y2, m2, d2) = calendar.civil(first), calendar.civil(last)
    months = (y2 - y1) * 12 + m2 - m1
    if months > 0 and (d2, of_last) < (d1, of_first):
        months -= 1
    elif months < 0 and (d2, of_last) > (d1, of_first):
        months += 1
    return int(months / unit)


def _last_day(day: int) -> int:
    year, month, _ = calendar.civil(day)
    return calendar.days(year + month // 12, month % 12 + 1, 1) - 1


def _make_date(year: int, month: int, day: int) -> int:
    if not 1 <= year <= 9999 or not calendar.valid(year, month, day):
        raise RowError(f"there is no date {year}-{month}-{day}")
    return calendar.days(year, month, day)


def _total(function: Callable[..., float]) -> Callable[..., float]:
    def value(*args: float) -> float:
        try:
            return function(*args)
        except OverflowError:
            return math.inf
        except ValueError:
            return math.nan

    return value


def _substring_index(text: str, separator: str, count: int) -> str:
    if not separator or count == 0:
        return ""
    parts = text.split(separator)
    return separator.join(parts[:count] if count > 0 else parts[count:])


def _initcap(text: str) -> str:
    return " ".join(word[:1].title() + word[1:].lower() for word in text.split(" "))


def _translate(text: str, old: str, new: str) -> str:
    table: dict[int, str | None] = {}
    for at, char in enumerate(old):
        table.setdefault(ord(char), new[at] if at < len(new) else None)
    return text.translate(table)


def _percentile(values: list[float], share: float) -> float:
    """Interpolated between two neighbours of the sorted values."""
    at = share * (len(values) - 1)
    low, high = math.floor(at), math.ceil(at)
    if low == high or values[low] == values[high]:
        return values[low]
    return (high - at) * values[low] + (at - low) * values[high]


def _percentile_disc(values: list[float], share: float) -> float:
    """The first value that at least `count` rows are not above."""
    count = len(values)
    return next(value for at, value in enumerate(values, 1) if at / count >= share)


def _array_join(values: list[str | None], separator: str, null: str | None) -> str:
    return separator.join(
        value if value is not None else null or "" for value in values if value is not None or null is not None
    )


#: A text that a function makes may not become longer.
_LONGEST = 10_000_000


def _pad(name: str) -> Callable[[str, int, str], str]:
    pad = _spec(name)

    def value(text: str, width: int, fill: str) -> str:
        if width > _LONGEST:
            raise RowError(f"{name} makes a text of more than {_LONGEST} characters")
        return str(pad(text, width, fill))

    return value


def _remainder(left: float, right: float) -> float:
    if right == 0:
        raise RowError("division by zero")
    return math.nan if math.isinf(left) else math.fmod(left, right)


def _repeat(text: str, count: int) -> str:
    if len(text) * count > _LONGEST:
        raise RowError(f"repeat makes a text of more than {_LONGEST} characters")
    return text * count


_DECIMALS = ["VARCHAR", "VARCHAR", "INTEGER", "INTEGER"]
#: Name, parameters, result, function. A null among the arguments gives a null.
_FUNCTIONS: list[tuple[str, list[str], str, Callable[..., Any]]] = [
    ("text_to_bigint", ["VARCHAR"], "BIGINT", _read("bigint")),
    ("text_to_double", ["VARCHAR"], "DOUBLE", _read("double")),
    ("text_to_float", ["VARCHAR"], "FLOAT", _read("float")),
    ("text_to_boolean", ["VARCHAR"], "BOOLEAN", _read("boolean")),
    ("text_to_days", ["VARCHAR"], "INTEGER", _read("date")),
    ("text_to_micros", ["VARCHAR"], "BIGINT", _read("timestamp")),
    ("text_to_decimal", ["VARCHAR", "INTEGER", "INTEGER"], "VARCHAR", _text_to_decimal),
    ("double_to_decimal", ["DOUBLE", "INTEGER", "INTEGER"], "VARCHAR", _double_to_decimal),
    ("float_to_decimal", ["FLOAT", "INTEGER", "INTEGER"], "VARCHAR", _float_to_decimal),
    ("double_to_float", ["DOUBLE"], "FLOAT", lambda value: round_float(value, "float")),
    ("double_to_text", ["DOUBLE"], "VARCHAR", show_double),
    ("float_to_text", ["FLOAT"], "VARCHAR", _show_float),
    ("days_to_text", ["INTEGER"], "VARCHAR", calendar.show_date),
    ("micros_to_text", ["BIGINT"], "VARCHAR", calendar.show_timestamp),
    ("decimal_add", _DECIMALS, "VARCHAR", _decimal_add),
    ("decimal_multiply", _DECIMALS, "VARCHAR", _decimal_multiply),
    ("decimal_divide", _DECIMALS, "VARCHAR", _decimal_divide),
    ("decimal_remainder", _DECIMALS, "VARCHAR", _decimal_remainder),
    ("decimal_div", ["VARCHAR", "VARCHAR"], "BIGINT", _decimal_div),
    ("decimal_round", ["VARCHAR", "INTEGER", "INTEGER", "INTEGER"], "VARCHAR", _decimal_round),
    ("round_double", ["DOUBLE", "INTEGER"], "DOUBLE", _round_double),
    ("round_whole", ["BIGINT", "INTEGER"], "BIGINT", _round_whole),
    *((name, ["DOUBLE"], "DOUBLE", _spec(name, "double")) for name in
      ("sqrt", "exp", "ln", "log10", "log2", "sign")),
    ("log", ["DOUBLE", "DOUBLE"], "DOUBLE", _spec("log", "double")),
    ("pow", ["DOUBLE", "DOUBLE"], "DOUBLE", _spec("pow", "double")),
    ("remainder_double", ["DOUBLE", "DOUBLE"], "DOUBLE", _remainder),
    *((name, ["DOUBLE"], "DOUBLE", _total(getattr(math, name))) for name in
      ("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "degrees", "radians")),
    ("rint", ["DOUBLE"], "DOUBLE", lambda value: float(round(value)) if math.isfinite(value) else value),
    ("atan2", ["DOUBLE", "DOUBLE"], "DOUBLE", math.atan2),
    ("upper", ["VARCHAR"], "VARCHAR", _spec("upper")), ("lower", ["VARCHAR"], "VARCHAR", _spec("lower")),
    *((name, ["VARCHAR", "VARCHAR"], "VARCHAR", _spec(name)) for name in ("trim", "ltrim", "rtrim")),
    ("substring", ["VARCHAR", "INTEGER", "INTEGER"], "VARCHAR", _spec("substring")),
    ("left", ["VARCHAR", "INTEGER"], "VARCHAR", _spec("left")),
    ("right", ["VARCHAR", "INTEGER"], "VARCHAR", _spec("right")),
    ("replace", ["VARCHAR", "VARCHAR", "VARCHAR"], "VARCHAR", _spec("replace")),
    ("locate", ["VARCHAR", "VARCHAR", "INTEGER"], "INTEGER", _spec("locate")),
    *((name, ["VARCHAR", "INTEGER", "VARCHAR"], "VARCHAR", _pad(name)) for name in ("lpad", "rpad")),
    ("repeat", ["VARCHAR", "INTEGER"], "VARCHAR", _repeat),
    ("reverse", ["VARCHAR"], "VARCHAR", _spec("reverse")),
    ("split_part", ["VARCHAR", "VARCHAR", "INTEGER"], "VARCHAR", _spec("split_part")),
    ("initcap", ["VARCHAR"], "VARCHAR", _initcap),
    ("translate", ["VARCHAR", "VARCHAR", "VARCHAR"], "VARCHAR", _translate),
    ("substring_index", ["VARCHAR", "VARCHAR", "INTEGER"], "VARCHAR", _substring_index),
    ("split", ["VARCHAR", "VARCHAR"], "VARCHAR[]", lambda text, at: text.split(at)),
    ("array_join", ["VARCHAR[]", "VARCHAR"], "VARCHAR", lambda values, at: _array_join(values, at, None)),
    ("array_join_nulls", ["VARCHAR[]", "VARCHAR", "VARCHAR"], "VARCHAR", _array_join),
    ("date_format", ["BIGINT", "VARCHAR"], "VARCHAR", format_micros),
    ("months_elapsed", ["BIGINT", "BIGINT", "INTEGER"], "BIGINT", _months_elapsed),
    ("last_day", ["INTEGER"], "INTEGER", _last_day),
    ("make_date", ["INTEGER", "INTEGER", "INTEGER"], "INTEGER", _make_date),
    ("dayname", ["INTEGER"], "VARCHAR", lambda day: DAYS[(day + 3) % 7][:3]),
    ("monthname", ["INTEGER"], "VARCHAR", lambda day: MONTHS[calendar.civil(day)[1] - 1][:3]),
    ("percentile", ["DOUBLE[]", "DOUBLE"], "DOUBLE", _percentile),
    ("percentile_disc", ["DOUBLE[]", "DOUBLE"], "DOUBLE", _percentile_disc),
]  # fmt: skip
#: Functions that may give a null where they would fail.
_SAFE = {"text_to_bigint", "text_to_double", "text_to_float", "text_to_boolean", "text_to_days", "text_to_micros",
         "text_to_decimal", "double_to_decimal", "float_to_decimal", "decimal_add", "decimal_multiply",
         "decimal_divide", "decimal_remainder"}  # fmt: skip


def _by_columns(function: Callable[..., Any], count: int, result: str, safe: bool) -> Callable[..., pa.Array]:
    kind = _ARROW[result]

    def values(columns: Iterable[Any]) -> Iterable[Any]:
        for args in zip(*(column.to_pylist() for column in columns), strict=True):
            if None in args:
                yield None
                continue
            try:
                yield function(*args)
            except RowError:
                if not safe:
                    raise
                yield None

    def whole(*columns: Any) -> pa.Array:
        return pa.array(list(values(columns)), kind)

    # DuckDB counts the parameters of the function.
    by_count: dict[int, Callable[..., pa.Array]] = {
        1: lambda a: whole(a),
        2: lambda a, b: whole(a, b),
        3: lambda a, b, c: whole(a, b, c),
        4: lambda a, b, c, d: whole(a, b, c, d),
    }
    return by_count[count]


def register(connection: duckdb.DuckDBPyConnection, sql: str | None = None) -> None:
    """Adds the functions that plans call to a connection; with `sql`, only those that it names."""
    called = None if sql is None else set(re.findall(r"\bspark_\w+", sql))
    for name, parameters, result, function in _FUNCTIONS:
        for prefix in ("spark_", "spark_try_") if name in _SAFE else ("spark_",):
            if called is not None and prefix + name not in called:
                continue
            connection.create_function(
                prefix + name,
                _by_columns(function, len(parameters), result, prefix == "spark_try_"),
                [*parameters],
                result,
                type=PythonUDFType.ARROW,
                null_handling=FunctionNullHandling.SPECIAL,
            )
