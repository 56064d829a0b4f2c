"""Dates and timestamps on columns, for all years that Spark has: far dates are looked up 400-year cycles away.

>>> import polars as pl
>>> from penstock.model.expressions.tree import Call
>>> pl.select(TIME["year"](Call("year", (), "int"), pl.lit(2_147_483_647, pl.Int32).cast(pl.Date))).item()
5881580
"""

from __future__ import annotations

from typing import Final

import polars as pl

from penstock.kernel.expressions.outcome import Outcome, Rule
from penstock.model.expressions.calendar import CYCLE, DAY, UNITS
from penstock.model.expressions.tree import Call, Literal
from penstock.model.time import SECOND

_TIMESTAMP = pl.Datetime("us", "UTC")
_MIN = -(1 << 63)


def _days(date: pl.Expr) -> pl.Expr:
    return date.to_physical().cast(pl.Int64)


def micros(timestamp: pl.Expr) -> pl.Expr:
    return timestamp.to_physical()


def near(date: pl.Expr) -> pl.Expr:
    """The date of the same place in the calendar within the 400 years from 1970 on."""
    return (_days(date) % CYCLE).cast(pl.Int32).cast(pl.Date)


def year(date: pl.Expr) -> pl.Expr:
    return near(date).dt.year() + (_days(date) // CYCLE * 400).cast(pl.Int32)


def _first_day(date: pl.Expr, unit: str) -> pl.Expr:
    """The first day of the week, month, quarter or year, as days since 1970."""
    match unit:
        case "WEEK":
            return _days(date) - (_days(date) + 3) % 7
        case "MONTH":
            return _days(date) - near(date).dt.day().cast(pl.Int64) + 1
        case "YEAR":
            return _days(date) - near(date).dt.ordinal_day().cast(pl.Int64) + 1
        case _:
            back = near(date).to_physical() - near(date).dt.truncate("1q").to_physical()
            return _days(date) - back.cast(pl.Int64)


def _date_trunc(call: Call, _: pl.Expr, timestamp: pl.Expr) -> Outcome:
    unit = call.args[0]
    assert isinstance(unit, Literal)
    name, at = str(unit.value), micros(timestamp)
    back = at % UNITS[name] if name in UNITS else at - _first_day(timestamp.dt.date(), name) * DAY
    if name == "MICROSECOND":
        return Outcome(timestamp)
    # Only in the first instants of all time may the beginning of the unit lie before them: a few more days than a year.
    edge = at < _MIN + 366 * DAY
    return Outcome((at - back).cast(_TIMESTAMP), edge & (at - _MIN < back), "date_trunc overflows")


def _trunc(call: Call, date: pl.Expr, _: pl.Expr) -> pl.Expr:
    unit = call.args[1]
    assert isinstance(unit, Literal)
    return _first_day(date, str(unit.value)).cast(pl.Int32, wrap_numerical=True).cast(pl.Date)


def _part(name: str) -> Rule:
    return lambda _, date: getattr(near(date).dt, name)().cast(pl.Int32)


def _clock(unit: int, modulus: int) -> Rule:
    return lambda _, timestamp: (micros(timestamp) // unit % modulus).cast(pl.Int32)


def _shift(sign: int) -> Rule:
    """Days added to a date wrap around, in Spark too."""

    def rule(_: Call, date: pl.Expr, count: pl.Expr) -> pl.Expr:
        day = date.to_physical()
        return (day + count if sign > 0 else day - count).cast(pl.Date)

    return rule


def _scaled(unit: int, what: str) -> Rule:
    limit = ((1 << 63) - 1) // unit
    return lambda _, count: Outcome(
        (count * unit).cast(_TIMESTAMP), (count > limit) | (count < -limit), f"{what} overflows"
    )


def _moved(sign: int, symbol: str) -> Rule:
    """A timestamp and an interval, which is a constant."""

    def rule(call: Call, timestamp: pl.Expr, _: pl.Expr) -> Outcome:
        length = call.args[1]
        assert isinstance(length, Literal)
        assert isinstance(length.value, int)
        by, at = sign * length.value, micros(timestamp)
        fails = at > (1 << 63) - 1 - by if by >= 0 else at < _MIN - by
        return Outcome((at + by).cast(_TIMESTAMP), fails, f"timestamp {symbol} interval overflows")

    return rule


TIME: Final[dict[str, Rule]] = {
    "date_trunc": _date_trunc, "trunc": _trunc,
    "year": lambda _, date: year(date), "month": _part("month"), "day": _part("day"), "quarter": _part("quarter"),
    "dayofyear": _part("ordinal_day"), "weekofyear": _part("week"),
    "dayofweek": lambda _, date: ((_days(date) + 4) % 7 + 1).cast(pl.Int32),
    "weekday": lambda _, date: ((_days(date) + 3) % 7).cast(pl.Int32),
    "hour": _clock(3600 * SECOND, 24), "minute": _clock(60 * SECOND, 60), "second": _clock(SECOND, 60),
    "date_add": _shift(1), "date_subtract": _shift(-1),
    "date_diff": lambda _, end, start: end.to_physical() - start.to_physical(),
    "unix_date": lambda _, date: date.to_physical(), "unix_micros": lambda _, timestamp: micros(timestamp),
    "unix_millis": lambda _, timestamp: micros(timestamp) // 1_000,
    "unix_seconds": lambda _, timestamp: micros(timestamp) // SECOND,
    "unix_timestamp": lambda _, timestamp: micros(timestamp).truncdiv(SECOND),
    "timestamp_micros": lambda _, count: count.cast(_TIMESTAMP),
    "timestamp_millis": _scaled(1_000, "timestamp_millis"), "timestamp_seconds": _scaled(SECOND, "timestamp_seconds"),
    "timestamp_add": _moved(1, "+"), "timestamp_subtract": _moved(-1, "-"),
}  # fmt: skip
