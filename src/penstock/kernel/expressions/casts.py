"""Casts on columns. What cannot be cast becomes null in Polars; here it is a failure, unless the cast is safe.

>>> import polars as pl
>>> from penstock.model.expressions.tree import Call, Column
>>> result = cast(Call("cast", (Column("s", "string"),), "int"), pl.col("s"))
>>> pl.select(s=pl.Series([" 7", "x", None])).select(result.value, f=result.fails).rows()
[(7, False), (None, True), (None, False)]
"""

from __future__ import annotations

import polars as pl

from penstock.kernel.expressions.dtypes import dtype
from penstock.kernel.expressions.numbers import exact_divide
from penstock.kernel.expressions.outcome import Outcome
from penstock.kernel.expressions.time import micros, near, year
from penstock.model.expressions.calendar import CYCLE, DAY
from penstock.model.expressions.casts import BLANKS, DOUBLE_BLANKS, FALSE, TRUE
from penstock.model.expressions.coerce import is_decimal
from penstock.model.expressions.tree import Call
from penstock.model.time import SECOND
from penstock.model.types import INTEGERS, decimal_of, is_float, is_integer

_DATE = r"^([+-]?)([0-9]{4,7})(?:-([0-9]{1,2})(?:-([0-9]{1,2})(?:[ T](?s:.*))?)?)?$"


def cast(call: Call, value: pl.Expr) -> Outcome | pl.Expr:
    """A column as a column of another type."""
    source, target = call.args[0].type, call.type
    if source == "string":
        return _text(value, target)
    if source == "boolean":
        return value.cast(pl.String) if target == "string" else value.cast(dtype(target))
    if source == "date":
        return date_text(value) if target == "string" else _day_to_timestamp(value)
    if source == "timestamp":
        return _timestamp(value, target)
    return _number(value, source, target)


def _text(value: pl.Expr, target: str) -> Outcome | pl.Expr:
    if target == "binary":
        return value.cast(pl.Binary)
    reason = f"cast of string to {target} fails"
    if is_float(target):
        return _text_to_float(value, target, reason)
    trimmed = value.str.strip_chars(BLANKS)
    if is_integer(target):
        number = trimmed.cast(dtype(target), strict=False)
        return Outcome(number, number.is_null() & value.is_not_null(), reason)
    if target == "boolean":
        word = trimmed.str.to_lowercase()
        return Outcome(word.is_in(TRUE), ~word.is_in([*TRUE, *FALSE]), reason)
    return _text_to_date(trimmed, reason)


def _text_to_float(value: pl.Expr, target: str, reason: str) -> Outcome:
    """Polars reads what Java reads, but for Java's suffixes d and f; and it reads '-nan', which Spark does not."""
    trimmed = value.str.strip_chars(DOUBLE_BLANKS)
    number = pl.coalesce(
        trimmed.cast(dtype(target), strict=False),
        trimmed.str.replace("([0-9.])[dDfF]$", "${1}").cast(dtype(target), strict=False),
    )
    strange = number.is_nan() & trimmed.str.starts_with("-")
    return Outcome(number, (number.is_null() & value.is_not_null()) | strange, reason)


def _text_to_date(trimmed: pl.Expr, reason: str) -> Outcome:
    """Years beyond four digits are looked up 400-year cycles away."""
    parts = trimmed.str.extract_groups(_DATE).struct
    size = parts.field("2").cast(pl.Int64)
    of_year = pl.when(parts.field("1") == "-").then(size * -1).otherwise(size)
    month, day = (parts.field(name).fill_null("1").cast(pl.Int8) for name in ("3", "4"))
    valid = (month >= 1) & (month <= 12) & (day >= 1) & (day <= 31)
    close = pl.date(1970 + (of_year - 1970) % 400, pl.when(valid).then(month).otherwise(1), 1)
    days = close.to_physical().cast(pl.Int64) + (of_year - 1970) // 400 * CYCLE + day.cast(pl.Int64) - 1
    fits = valid & (day <= close.dt.days_in_month()) & (days >= -(1 << 31)) & (days < 1 << 31)
    value = pl.when(fits).then(days).otherwise(None).cast(pl.Int32).cast(pl.Date)
    return Outcome(value, trimmed.is_not_null() & value.is_null(), reason)


def date_text(date: pl.Expr) -> pl.Expr:
    """Four digits of year, and a sign outside of 0 to 9999."""
    of_year = year(date)
    digits = of_year.abs().cast(pl.String).str.zfill(4)
    sign = pl.when(of_year < 0).then(pl.lit("-")).when(of_year > 9999).then(pl.lit("+")).otherwise(pl.lit(""))
    return pl.concat_str(sign, digits, near(date).dt.strftime("-%m-%d"))


def _day_to_timestamp(date: pl.Expr) -> Outcome:
    days = date.to_physical().cast(pl.Int64)
    limit = (1 << 63) // DAY
    return Outcome((days * DAY).cast(dtype("timestamp")), days.abs() > limit, "cast of date to timestamp overflows")


def _timestamp(value: pl.Expr, target: str) -> Outcome | pl.Expr:
    if target == "date":
        return value.dt.date()
    if target == "double":
        return exact_divide(micros(value).cast(pl.Float64), pl.lit(float(SECOND)))
    if target == "string":
        clock = (micros(value) % DAY).cast(pl.Datetime("us")).dt.strftime(" %H:%M:%S%.6f")
        return pl.concat_str(date_text(value.dt.date()), clock.str.strip_chars_end("0").str.strip_chars_end("."))
    return _narrowed(micros(value) // SECOND, "timestamp", "bigint", target)


def _number(value: pl.Expr, source: str, target: str) -> Outcome | pl.Expr:
    if target == "boolean":
        return value != 0
    if target == "string":
        return value.cast(pl.String)
    if target == "timestamp":
        return (value.cast(pl.Int128) * SECOND).clip(-(1 << 63), (1 << 63) - 1).cast(pl.Int64).cast(dtype(target))
    if is_float(target):
        return _to_float(value, source, target)
    if is_decimal(target):
        return _to_decimal(value, source, target)
    if is_float(source):
        return _float_to_whole(value, source, target)
    if is_decimal(source):
        _, scale = decimal_of(source)
        whole = value.to_physical().truncdiv(pl.lit(10**scale, dtype=pl.Int128))
        return _narrowed(whole, source, "decimal", target)
    return _narrowed(value, source, source, target)


def _narrowed(value: pl.Expr, source: str, width: str, target: str) -> Outcome | pl.Expr:
    if width in INTEGERS and INTEGERS[width] <= INTEGERS[target]:
        return value.cast(dtype(target))
    narrow = value.cast(dtype(target), strict=False)
    return Outcome(narrow, narrow.is_null() & value.is_not_null(), f"cast of {source} to {target} overflows")


def _float_to_whole(value: pl.Expr, source: str, target: str) -> Outcome:
    """Towards zero. In bigint, 2⁶³ itself is taken for the largest."""
    half = 2.0 ** (INTEGERS[target] - 1)
    wide = value.cast(pl.Float64)
    above = wide > half if target == "bigint" else wide >= half
    below = wide < -half if target == "bigint" else wide <= -half - 1
    number = wide.cast(pl.Int64, strict=False)
    if target == "bigint":
        number = pl.when(wide == half).then(pl.lit((1 << 63) - 1, dtype=pl.Int64)).otherwise(number)
    fails = above | below | wide.is_nan()
    return Outcome(number.cast(dtype(target), strict=False), fails, f"cast of {source} to {target} overflows")


def _to_float(value: pl.Expr, source: str, target: str) -> pl.Expr:
    if is_decimal(source) and (decimal_of(source)[0] > 15 or target == "float"):
        return value.cast(pl.String).cast(dtype(target))
    return value.cast(dtype(target))


def _to_decimal(value: pl.Expr, source: str, target: str) -> Outcome | pl.Expr:
    precision, scale = decimal_of(target)
    before = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 19}.get(source)
    had = 0
    if before is None:
        p, had = decimal_of(source)
        before = p - had
    if before <= precision - scale and scale >= had:
        return value.cast(dtype(target))
    unscaled = (value.to_physical() if is_decimal(source) else value).cast(pl.Int128)
    if scale >= had:
        limit = pl.lit(10 ** (precision - scale + had), dtype=pl.Int128)
        fails, moved = unscaled.abs() >= limit, unscaled * pl.lit(10 ** (scale - had), dtype=pl.Int128)
    else:
        unit = pl.lit(10 ** (had - scale), dtype=pl.Int128)
        half = pl.lit(10 ** (had - scale) // 2, dtype=pl.Int128)
        size = (unscaled.abs() // unit) + ((unscaled.abs() % unit) >= half).cast(pl.Int128)
        moved = pl.when(unscaled < 0).then(size * -1).otherwise(size)
        fails = size >= pl.lit(10**precision, dtype=pl.Int128)
    fitting = pl.when(~fails).then(moved).otherwise(None)
    return Outcome(fitting.reinterpret(dtype=dtype(target)), fails, f"cast of {source} to {target} overflows")
