"""Calendar windows: days, weeks, months, quarters and years of a time zone, whatever length they have there.

>>> day = calendar("day", zone="Europe/Berlin")
>>> print(day.assign(instant("2024-03-31T12:00:00Z"))[0])  # the day on which the clocks go forward has 23 hours
[2024-03-30T23:00:00Z, 2024-03-31T22:00:00Z)
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

from penstock.errors import DefinitionError, RowError, unknown
from penstock.model.time import Instant, instant, to_datetime
from penstock.model.windows.base import Aligned, Interval

UNITS = ("day", "week", "month", "quarter", "year")
OUTSIDE = "the event time is outside the years 2 to 9998, which calendar windows cover"
#: Events outside these years have no calendar windows: a zone or the next year could leave what dates can express.
EARLIEST, LATEST = instant("0002-01-01"), instant("9999-01-01")
WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")


@dataclass(frozen=True, repr=False)
class Calendar(Aligned):
    """Windows of the calendar. A day starts at its first instant in the zone, also where midnight is skipped."""

    unit: str
    zone: str = "UTC"
    week_start: str = "monday"

    def slice_of(self, at: Instant) -> Interval:
        if not EARLIEST <= at < LATEST:
            raise RowError(OUTSIDE)
        day = _first_day(to_datetime(at).astimezone(ZoneInfo(self.zone)).date(), self.unit, self.week_start)
        return Interval(_start_of(day, self.zone), _start_of(_next(day, self.unit), self.zone))

    def windows_of(self, slice_: Interval) -> tuple[Interval, ...]:
        return (slice_,)

    def __repr__(self) -> str:
        week = f", week_start={self.week_start!r}" if self.unit == "week" and self.week_start != "monday" else ""
        return f"ps.calendar({self.unit!r}, zone={self.zone!r}{week})"


def calendar(unit: str, *, zone: str = "UTC", week_start: str = "monday") -> Calendar:
    """Windows of the calendar: `calendar("month", zone="Europe/Berlin")`."""
    if unit not in UNITS:
        raise unknown("calendar unit", unit, UNITS)
    if week_start not in WEEKDAYS:
        raise unknown("weekday", week_start, WEEKDAYS)
    try:
        ZoneInfo(zone)
    except (KeyError, ValueError, OSError):
        raise DefinitionError(f"unknown time zone '{zone}'", hint="write an IANA name such as Europe/Berlin") from None
    return Calendar(unit, zone, week_start)


@lru_cache(maxsize=4096)
def _start_of(day: date, zone: str) -> Instant:
    """The first instant of a day. Where clocks skip midnight, the day begins at the jump.

    A midnight that does not exist, read with the offset before the jump, is an instant of the new day: it shows there
    as an hour later, and the jump itself is the instant at which the old offset would have shown midnight.
    """
    midnight = datetime(day.year, day.month, day.day, tzinfo=ZoneInfo(zone))  # fold=0: the first of two midnights
    return instant(midnight.astimezone(UTC))


def _first_day(day: date, unit: str, week_start: str) -> date:
    if unit == "week":
        return day - timedelta(days=(day.weekday() - WEEKDAYS.index(week_start)) % 7)
    if unit == "day":
        return day
    month = {"month": day.month, "quarter": (day.month - 1) // 3 * 3 + 1, "year": 1}[unit]
    return date(day.year, month, 1)


def _next(day: date, unit: str) -> date:
    if unit in ("day", "week"):
        return day + timedelta(days=1 if unit == "day" else 7)
    months = day.year * 12 + day.month - 1 + {"month": 1, "quarter": 3, "year": 12}[unit]
    return date(months // 12, months % 12 + 1, 1)
