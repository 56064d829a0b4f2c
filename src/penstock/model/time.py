"""Instants and durations: whole microseconds, as Spark keeps them. An instant counts from 1970-01-01T00:00Z.

>>> duration("10 seconds"), duration("1 hour 30 minutes")
(10000000, 5400000000)
>>> show_instant(instant("2024-05-01T12:00:00Z"))
'2024-05-01T12:00:00Z'
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from typing import Final, TypeAlias

from penstock.errors import DefinitionError

Instant: TypeAlias = int
Duration: TypeAlias = int

#: Before all and after all events: the watermark of a stream that knows nothing yet, and of one that has ended.
BEGINNING: Final[Instant] = -(1 << 62)
END: Final[Instant] = 1 << 62

SECOND: Final = 1_000_000

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_UNITS: Final[dict[str, int]] = {
    "us": 1, "microsecond": 1,
    "ms": 1_000, "millisecond": 1_000,
    "s": SECOND, "sec": SECOND, "second": SECOND,
    "m": 60 * SECOND, "min": 60 * SECOND, "minute": 60 * SECOND,
    "h": 3600 * SECOND, "hour": 3600 * SECOND,
    "d": 86_400 * SECOND, "day": 86_400 * SECOND,
    "w": 7 * 86_400 * SECOND, "week": 7 * 86_400 * SECOND,
}  # fmt: skip
_STORED = re.compile(r"([+-]?\d+)-(\d\d)-(\d\d)(?:[ T](\d\d):(\d\d):(\d\d)(?:\.(\d{1,6}))?)?")
_PART = re.compile(r"\s*([+-]?\d+(?:\.\d+)?)\s*([a-z]+)\s*")


def duration(value: str | timedelta) -> Duration:
    """A duration from text ('10 seconds', '1h 30m') or a timedelta. A number without a unit is an error."""
    if isinstance(value, timedelta):
        return value // timedelta(microseconds=1)
    if not isinstance(value, str):
        raise DefinitionError(
            f"not a duration: {value!r}{' has no unit' if isinstance(value, (int, float)) else ''}",
            hint="write for example '10 seconds' or timedelta(seconds=10)",
        )
    text, at, total = value.strip().lower(), 0, 0
    while at < len(text) or not text:
        part = _PART.match(text, at)
        unit = None if part is None else _UNITS.get(part[2]) or _UNITS.get(part[2].removesuffix("s"))
        if part is None or unit is None:
            raise DefinitionError(
                f"not a duration: '{value}'",
                hint="write a number and a unit: microseconds, milliseconds, seconds, minutes, hours, days or weeks"
                + ("; months and years are windows of ps.calendar" if re.search("month|year", text) else ""),
            )
        total += round(float(part[1]) * unit) if "." in part[1] else int(part[1]) * unit
        at = part.end()
    return total


def in_seconds(value: float | str | timedelta) -> float:
    """Seconds, as a number, or as a duration.

    >>> in_seconds(0.5), in_seconds("2 minutes"), in_seconds(timedelta(milliseconds=20))
    (0.5, 120.0, 0.02)
    """
    if isinstance(value, bool):
        raise DefinitionError(f"not a duration: {value!r}", hint="write for example '10 seconds'")
    return float(value) if isinstance(value, (int, float)) else duration(value) / SECOND


def positive(value: str | timedelta, what: str) -> Duration:
    """A duration above zero, or an error that names what it was meant for."""
    micros = duration(value)
    if micros <= 0:
        raise DefinitionError(f"{what} must be above zero, and is {show_duration(micros)}")
    return micros


def not_negative(value: str | timedelta, what: str) -> Duration:
    """A duration of zero or more, or an error that names what it was meant for."""
    micros = duration(value)
    if micros < 0:
        raise DefinitionError(f"{what} must not be negative, and is {show_duration(micros)}")
    return micros


def show_duration(micros: Duration) -> str:
    """The shortest text that `duration` reads back.

    >>> show_duration(90_000_000), show_duration(0), show_duration(duration("7 days"))
    ('90 seconds', '0 seconds', '7 days')
    """
    for unit in ("day", "hour", "minute", "second", "millisecond", "microsecond"):
        count, rest = divmod(micros, _UNITS[unit])
        if not rest and (count or unit == "second"):
            return f"{count} {unit}{'' if abs(count) == 1 else 's'}"
    raise AssertionError(micros)


def instant(value: str | int | datetime | date, *, day: Instant = 0) -> Instant:
    """An instant from ISO text, a datetime (naive means UTC), a date, or microseconds; '12:00:05' is on `day`."""
    if type(value) is datetime and value.tzinfo is not None:
        return _since_epoch(value)
    if isinstance(value, bool):
        raise DefinitionError(f"not an instant: {value!r}")
    if isinstance(value, int):
        return value
    if isinstance(value, str):
        text = value.strip()
        try:
            if re.fullmatch(r"\d{1,2}:\d{2}(:\d{2}(\.\d{1,6})?)?", text):
                hours, _, rest = text.partition(":")
                clock = datetime.fromisoformat(f"1970-01-01T{int(hours):02}:{rest}+00:00")
                return day + (clock - _EPOCH) // timedelta(microseconds=1)
            value = datetime.fromisoformat(text)
        except ValueError:
            raise DefinitionError(
                f"not an instant: '{text}'", hint="write for example '2024-05-01T12:00:00Z'"
            ) from None
    if not isinstance(value, datetime):
        if not isinstance(value, date):
            raise DefinitionError(f"not an instant: {value!r}", hint="give ISO text, a datetime or microseconds")
        value = datetime(value.year, value.month, value.day, tzinfo=UTC)
    if value.tzinfo is None:
        value = value.replace(tzinfo=UTC)
    return _since_epoch(value)


def _since_epoch(value: datetime) -> Instant:
    passed = value - _EPOCH
    return (passed.days * 86_400 + passed.seconds) * SECOND + passed.microseconds


#: Times without a date ('12:00:05') in scripts and INSERT are on this day.
SCRIPT_DAY: Final[Instant] = instant("2000-01-01")


def to_datetime(micros: Instant) -> datetime:
    """The instant as an aware datetime in UTC."""
    return _EPOCH + timedelta(microseconds=micros)


def show_instant(micros: Instant) -> str:
    """The instant as ISO text, with only as many decimals as it needs."""
    if micros <= BEGINNING:
        return "the beginning"
    if micros >= END:
        return "the end"
    try:
        text = to_datetime(micros).isoformat()
    except OverflowError:
        return f"{micros} µs"
    return (
        re.sub(r"(\.\d*?)0+$", r"\1", text.removesuffix("+00:00")).removesuffix(".") + "Z"
        if "." in text
        else (text.removesuffix("+00:00") + "Z")
    )


def micros_of(text: str) -> Instant:
    """The instant that a timestamp or a date of the store means, in any year.

    >>> micros_of("1970-01-02 00:00:00.5"), micros_of("+26059-12-31") // 86_400_000_000
    (86400500000, 8798691)
    """
    match = _STORED.fullmatch(text)
    if match is None:
        raise ValueError(f"not a time of the store: {text!r}")
    year, (month, day) = int(match[1]), (int(part) for part in match.group(2, 3))
    alike = 2000 + year % 400  # the calendar repeats itself every 400 years
    days = date(alike, month, day).toordinal() - date(1970, 1, 1).toordinal() + (year - alike) // 400 * 146_097
    hours, minutes, seconds = (int(part or 0) for part in match.group(4, 5, 6))
    return (
        days * 86_400 * SECOND + (hours * 3600 + minutes * 60 + seconds) * SECOND + int((match[7] or "").ljust(6, "0"))
    )
