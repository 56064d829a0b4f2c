"""Values that no store, sink or answer could hold: a row with one of them is a dead letter, wherever it comes from.

>>> from penstock.model.types import Schema
>>> why_not_storable({"page": "a\\0b", "day": 0}, Schema.parse("page string, day date"))
"the column 'page' has a NUL character"
>>> why_not_storable({"page": "ab", "day": 3_000_000}, Schema.parse("page string, day date"))
"the column 'day' lies outside the years 1 to 9999"
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from penstock.model.time import Instant, instant
from penstock.model.types import Schema, fields_of

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
        value = row.get(name)
        if _any_scalar(value, kind, _is_nul):
            return has_nul(name)
        if _any_scalar(value, kind, _is_far):
            return is_far(name)
    return None


def _is_nul(value: object, kind: str) -> bool:
    return kind == "string" and isinstance(value, str) and "\0" in value


def _is_far(value: object, kind: str) -> bool:
    if kind not in TIMES or not isinstance(value, int):
        return False
    first, last = TIMES[kind]
    return not first <= value <= last


def _any_scalar(value: object, kind: str, test: Callable[[object, str], bool]) -> bool:
    """Whether a condition holds for a value, or for one that it holds."""
    if isinstance(value, list | tuple) and kind.startswith("array<"):
        return any(_any_scalar(part, kind[6:-1], test) for part in value)
    if isinstance(value, Mapping) and kind.startswith("struct<"):
        return any(_any_scalar(value.get(name), part, test) for name, part in fields_of(kind))
    if isinstance(value, Mapping) and kind.startswith("map<"):
        (_, key), (_, item) = fields_of(kind)
        return any(_any_scalar(one, key, test) or _any_scalar(other, item, test) for one, other in value.items())
    return test(value, kind)


def is_outside(at: Instant) -> bool:
    """Whether an event's time is further away than any calendar goes."""
    first, last = TIMES["timestamp"]
    return not first <= at <= last
