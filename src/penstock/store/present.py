"""Values as people read them in SQL and in panes.

Timestamps are text in UTC, '2024-05-01 12:00:00' with six decimals where they are not zero; dates are text; booleans 0
and 1; decimals of up to 15 digits numbers, of more digits text; lists JSON. NaN is the text 'NaN': it is not null,
and SQLite sorts text above all numbers, as Spark and PostgreSQL sort NaN.

>>> json_of(pl.DataFrame({"k": ['a"b', None], "v": [float("nan"), 1.5]})).to_list()
['{"k":"a\\\\"b","v":"NaN"}', '{"k":null,"v":1.5}']
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

import polars as pl

from penstock.kernel.scalars import INTEGERS
from penstock.model.time import SECOND, Instant, to_datetime

#: The days of 400 years.
_CYCLE = 146_097
#: The most digits of a decimal that a double keeps.
EXACT_DIGITS = 15


def shown_type(kind: pl.DataType) -> str:
    """The SQL type of a presented column."""
    if kind == pl.Boolean:
        return "BOOLEAN"
    if kind in INTEGERS:
        return "INTEGER"
    if kind == pl.Binary:
        return "BLOB"
    if kind.is_float():
        return "FLOAT64"
    return "REAL" if _is_short(kind) else "TEXT"


def shown_as_stored(kind: pl.DataType) -> bool:
    """Whether what people read is also exactly what the store keeps, so that one column does for both."""
    return kind in INTEGERS or kind in (pl.Boolean, pl.String, pl.Binary)


def shown(series: pl.Series) -> pl.Series:
    """A column as people read it, but for NaN, which SQLite takes for null."""
    kind = series.dtype
    if shown_as_stored(kind):
        return series
    if kind.is_float() or _is_short(kind):
        return series.cast(pl.Float64)
    value = pl.col(series.name)
    text = pl.when(value.is_not_null()).then(_token(value, kind, _COMPACT)) if kind.is_nested() else _text(value, kind)
    return series.to_frame().select(text.alias(series.name)).to_series()


def stored_time(micros: Instant) -> str:
    """An instant as the store shows it.

    >>> stored_time(1_500_000), stored_time(0)
    ('1970-01-01 00:00:01.500000', '1970-01-01 00:00:00')
    """
    return to_datetime(micros).replace(tzinfo=None).isoformat(sep=" ")


def stored_date(days: int) -> str:
    """A date, in days since 1970, as the store shows it."""
    return stored_time(days * 86_400 * SECOND)[:10]


@dataclass(frozen=True)
class JsonStyle:
    """How values are written in JSON: what is between them, and how times and decimals are."""

    comma: str
    colon: str
    #: The JSON of dates and timestamps, and of decimals. Where a value is null, it may be anything.
    time: Callable[[pl.Expr, pl.DataType], pl.Expr]
    decimal: Callable[[pl.Expr], pl.Expr]


def json_of(frame: pl.DataFrame, style: JsonStyle | None = None) -> pl.Series:
    """Each row as a JSON object. Binary is in base64; NaN and infinities are text, as Spark writes them."""
    if not frame.width:
        return pl.repeat("{}", frame.height, dtype=pl.String, eager=True)
    parts = [(name, pl.col(name), kind) for name, kind in frame.schema.items()]
    return frame.select(_object(parts, style or _COMPACT).alias("json")).to_series()


def _object(parts: list[tuple[str, pl.Expr, pl.DataType]], style: JsonStyle) -> pl.Expr:
    """An object with these fields."""
    texts: list[pl.Expr] = []
    for number, (name, value, kind) in enumerate(parts):
        texts.append(pl.lit((style.comma if number else "{") + json.dumps(name, ensure_ascii=False) + style.colon))
        texts.append(_token(value, kind, style))
    return pl.concat_str([*texts, pl.lit("}")])


def _token(value: pl.Expr, kind: pl.DataType, style: JsonStyle) -> pl.Expr:
    """A value as JSON text; null as 'null'."""
    if isinstance(kind, pl.List):
        inner = value.list.eval(_token(pl.element(), kind.inner, style))  # type: ignore[arg-type]
        text = pl.concat_str(pl.lit("["), inner.list.join(style.comma), pl.lit("]"))
        text = pl.when(value.is_not_null()).then(text)
    elif isinstance(kind, pl.Struct):
        parts = [(part.name, value.struct.field(part.name), part.dtype) for part in kind.fields]
        text = pl.when(value.is_not_null()).then(_object(parts, style))  # type: ignore[arg-type]
    elif kind.is_float():
        text = (
            pl.when(value.is_nan())
            .then(pl.lit('"NaN"'))
            .when(value.is_infinite())
            .then(pl.when(value > 0).then(pl.lit('"Infinity"')).otherwise(pl.lit('"-Infinity"')))
            .otherwise(value.cast(pl.String))
        )
    elif kind == pl.Boolean:
        text = pl.when(value).then(pl.lit("true")).when(~value).then(pl.lit("false"))
    elif kind == pl.String:
        text = _escaped(value)
    elif kind == pl.Binary:
        text = in_quotes(value.bin.encode("base64"))
    elif kind.is_temporal():
        text = style.time(value, kind)
    elif isinstance(kind, pl.Decimal):
        text = style.decimal(value)
    else:
        text = value.cast(pl.String)
    return pl.when(value.is_not_null()).then(text).otherwise(pl.lit("null"))


def in_quotes(text: pl.Expr) -> pl.Expr:
    """Text in which nothing is to be escaped, as a JSON string."""
    return pl.concat_str(pl.lit('"'), text, pl.lit('"'))


def _escaped(text: pl.Expr) -> pl.Expr:
    """Text as a JSON string: Polars writes it as the only field of an object, of which the value is left."""
    return pl.when(text.is_not_null()).then(
        pl.struct(text.alias("")).struct.json_encode().str.strip_prefix('{"":').str.strip_suffix("}")
    )


def _text(value: pl.Expr, kind: pl.DataType) -> pl.Expr:
    if kind == pl.Date:
        return _in_any_year(value, kind, _CYCLE, lambda near: near.dt.to_string("-%m-%d"))
    if isinstance(kind, pl.Datetime):
        whole = value.to_physical() % 1_000_000 == 0
        short, long = "-%m-%d %H:%M:%S", "-%m-%d %H:%M:%S%.6f"
        return _in_any_year(
            value,
            kind,
            _CYCLE * 86_400_000_000,
            lambda near: pl.when(whole).then(near.dt.to_string(short)).otherwise(near.dt.to_string(long)),
        )
    return value.cast(pl.String)


def _in_any_year(value: pl.Expr, kind: pl.DataType, cycle: int, rest: Callable[[pl.Expr], pl.Expr]) -> pl.Expr:
    """A time as text, also in years of which Polars does not know the calendar: it repeats itself every 400 years."""
    physical = value.to_physical().cast(pl.Int64)
    near = (physical % cycle).cast(pl.Int32 if kind == pl.Date else pl.Int64).cast(kind)
    year = near.dt.year().cast(pl.Int64) + physical // cycle * 400
    digits = year.abs().cast(pl.String).str.zfill(4)
    sign = pl.when(year < 0).then(pl.lit("-")).when(year > 9999).then(pl.lit("+")).otherwise(pl.lit(""))
    return pl.concat_str(sign, digits, rest(near))


def _is_short(kind: pl.DataType) -> bool:
    return isinstance(kind, pl.Decimal) and kind.precision is not None and kind.precision <= EXACT_DIGITS


_COMPACT = JsonStyle(
    ",", ":", time=lambda value, kind: in_quotes(_text(value, kind)), decimal=lambda value: value.cast(pl.String)
)
