"""Values that no store, sink or answer could hold: a row with one of them is a dead letter, wherever it comes from.

>>> from penstock.model.types import Schema
>>> why_not_storable({"page": "a\\0b", "day": 0}, Schema.parse("page string, day date"))
"the column 'page' has a NUL character"
>>> why_not_storable({"page": "ab", "day": 3_000_000}, Schema.parse("page string, day date"))
"the column 'day' lies outside the years 1 to 9999"
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from penstock.model.time import Instant, instant
from penstock.model.types import Schema

#: The first and the last value of a time: PostgreSQL, Arrow and Python all have the years between.
TIMES: Final = {
    "timestamp": (instant("0001-01-01"), instant("9999-12-31T23:59:59.999999Z")),
    "date": (instant("0001-01-01") // 86_400_000_000, instant("9999-12-31") // 86_400_000_000),
}
OUTSIDE: Final = "the event time lies outside the years 1 to 9999"


def has_nul(column: str) -> str:
    """Why a row is refused that has text with a NUL in a column."""
    return f"the column '{column}' has a NUL character"


def is_far(column: str) -> str:
    """Why a row is refused that has such a time in a column."""
    return f"the column '{column}' lies outside the years 1 to 9999"


def why_not_storable(row: Mapping[str, object], schema: Schema) -> str | None:
    """Why a row cannot be taken, by the first such column; None if it can."""
    for name, kind in schema:
        reason = _why_not(row.get(name), kind, name)
        if reason is not None:
            return reason
    return None


def _why_not(value: object, kind: str, name: str) -> str | None:
    if isinstance(value, str) and kind == "string":
        return has_nul(name) if "\0" in value else None
    if isinstance(value, int) and kind in TIMES:
        first, last = TIMES[kind]
        return None if first <= value <= last else is_far(name)
    if isinstance(value, list | tuple) and kind.startswith("array<"):
        reasons = (_why_not(part, kind[6:-1], name) for part in value)
        return next((reason for reason in reasons if reason is not None), None)
    return None


def is_outside(at: Instant) -> bool:
    """Whether an event's time is further away than any calendar goes."""
    first, last = TIMES["timestamp"]
    return not first <= at <= last
