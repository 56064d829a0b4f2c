"""The patterns of date_format: the letters that mean the same in every locale and calendar.

>>> format_micros(0, "EEE d MMM yyyy 'at' HH:mm")
'Thu 1 Jan 1970 at 00:00'
"""

from __future__ import annotations

import re
from functools import lru_cache

from penstock.model.expressions import calendar
from penstock.model.expressions.coerce import Outside
from penstock.model.time import SECOND

DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
_PIECE = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|[^A-Za-z']")
_KNOWN = {
    "yyyy", "yy", "y", "MM", "M", "MMM", "MMMM", "dd", "d", "HH", "H", "hh", "h", "mm", "m", "ss", "s", "a", "E",
    "EE", "EEE", "EEEE", "D", "DDD", "S", "SS", "SSS", "SSSS", "SSSSS", "SSSSSS",
}  # fmt: skip
_LITERAL = re.compile(r"[ \-/:.,_TZ]*")


def check_format(pattern: str) -> None:
    """Refuses a pattern with letters that are not known."""
    _pieces(pattern)


@lru_cache(maxsize=256)
def _pieces(pattern: str) -> tuple[tuple[str, bool], ...]:
    pieces: list[tuple[str, bool]] = []
    at = 0
    while at < len(pattern):
        match = _PIECE.match(pattern, at)
        if match is None:
            raise Outside(f"the pattern '{pattern}' has an open quote")
        if match[1] is not None:
            pieces.append((match[1].replace("''", "'") or "'", False))
        elif match[2] is not None:
            if match[0] not in _KNOWN:
                raise Outside(f"date_format has no letters '{match[0]}'; there are: {', '.join(sorted(_KNOWN))}")
            pieces.append((match[0], True))
        elif not _LITERAL.fullmatch(match[0]):
            raise Outside(f"date_format takes '{match[0]}' only in quotes")
        else:
            pieces.append((match[0], False))
        at = match.end()
    return tuple(pieces)


def format_micros(micros: int, pattern: str) -> str:
    """An instant in UTC by a pattern."""
    day, rest = divmod(micros, calendar.DAY)
    year, month, of_month = calendar.civil(day)
    if not 1 <= year <= 9999:
        raise Outside(f"date_format of the year {year} is not supported")
    seconds, fraction = divmod(rest, SECOND)
    hour, minute, second = seconds // 3600, seconds // 60 % 60, seconds % 60
    return "".join(
        text if not letters else _letters(text, year, month, of_month, day, hour, minute, second, fraction)
        for text, letters in _pieces(pattern)
    )


def _letters(
    text: str, year: int, month: int, of_month: int, day: int, hour: int, minute: int, second: int, fraction: int
) -> str:
    width = len(text)
    match text[0]:
        case "y":
            return f"{year % 100:02}" if width == 2 else f"{year:0{width}}"
        case "M":
            return MONTHS[month - 1][: 3 if width == 3 else None] if width > 2 else f"{month:0{width}}"
        case "E":
            return DAYS[(day + 3) % 7][: None if width == 4 else 3]
        case "D":
            return f"{day - calendar.truncate_day(day, 'YEAR') + 1:0{width}}"
        case "a":
            return "AM" if hour < 12 else "PM"
        case "h":
            return f"{(hour + 11) % 12 + 1:0{width}}"
        case "S":
            return f"{fraction:06}"[:width]
    return f"{ {'d': of_month, 'H': hour, 'm': minute, 's': second}[text[0]]:0{width}}"
