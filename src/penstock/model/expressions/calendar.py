"""The proleptic Gregorian calendar over days since 1970-01-01, without Python's limit to the years 1 to 9999.

>>> civil(0), days(2024, 2, 29), civil(-719529)
((1970, 1, 1), 19782, (-1, 12, 31))
"""

from __future__ import annotations

from penstock.model.time import SECOND

DAY = 86_400 * SECOND
#: 400 years have the same number of days every time, and whole weeks.
CYCLE = 146_097
UNITS = {
    "MICROSECOND": 1,
    "MILLISECOND": 1_000,
    "SECOND": SECOND,
    "MINUTE": 60 * SECOND,
    "HOUR": 3600 * SECOND,
    "DAY": DAY,
}
#: Spark's spellings of the units of date_trunc and extract.
ALIASES = {
    "YYYY": "YEAR", "YY": "YEAR", "MON": "MONTH", "MM": "MONTH", "DD": "DAY",
    "YEARS": "YEAR", "MONTHS": "MONTH", "WEEKS": "WEEK", "DAYS": "DAY", "HOURS": "HOUR", "MINUTES": "MINUTE",
    "SECONDS": "SECOND", "MILLISECONDS": "MILLISECOND", "MICROSECONDS": "MICROSECOND",
}  # fmt: skip


def days(year: int, month: int, day: int) -> int:
    """The days from 1970-01-01 to a date."""
    year -= month <= 2
    era, of_era = divmod(year, 400)
    of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    return era * CYCLE + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468


def civil(day: int) -> tuple[int, int, int]:
    """Year, month and day of a date."""
    era, of_era = divmod(day + 719_468, CYCLE)
    years = (of_era - of_era // 1_460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * years + years // 4 - years // 100)
    shifted = (5 * of_year + 2) // 153
    month = shifted + 3 if shifted < 10 else shifted - 9
    return era * 400 + years + (month <= 2), month, of_year - (153 * shifted + 2) // 5 + 1


def is_leap(year: int) -> bool:
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


def valid(year: int, month: int, day: int) -> bool:
    """Whether there is such a date."""
    if not 1 <= month <= 12 or day < 1:
        return False
    return day <= (29 if is_leap(year) else 28) if month == 2 else day <= (30 if month in (4, 6, 9, 11) else 31)


def week_of_year(day: int) -> int:
    """The ISO week: weeks begin on Monday, and the first has the year's first Thursday."""
    thursday = day - (day + 3) % 7 + 3
    return (thursday - days(civil(thursday)[0], 1, 1)) // 7 + 1


def truncate_day(day: int, unit: str) -> int:
    """The first day of the week, month, quarter or year."""
    year, month, _ = civil(day)
    match unit:
        case "WEEK":
            return day - (day + 3) % 7
        case "MONTH":
            return days(year, month, 1)
        case "QUARTER":
            return days(year, month - (month - 1) % 3, 1)
        case _:
            return days(year, 1, 1)


def truncate(micros: int, unit: str) -> int:
    """The beginning of the unit that an instant is in, in UTC."""
    if unit in UNITS:
        return micros - micros % UNITS[unit]
    return truncate_day(micros // DAY, unit) * DAY


def show_date(day: int) -> str:
    """The text of a date: four digits of year, and a sign outside of 0 to 9999."""
    year, month, of_month = civil(day)
    sign = "-" if year < 0 else "+" if year > 9999 else ""
    return f"{sign}{abs(year):04}-{month:02}-{of_month:02}"


def show_timestamp(micros: int) -> str:
    """The text of an instant in UTC, with only the decimals that it needs."""
    day, rest = divmod(micros, DAY)
    seconds, fraction = divmod(rest, SECOND)
    clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return f"{show_date(day)} {clock}" + (f".{fraction:06}".rstrip("0") if fraction else "")
