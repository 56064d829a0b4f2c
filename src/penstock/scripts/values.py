"""Values on both sides of an assertion: what a view holds and what a script says, in one form."""

from __future__ import annotations

import math
from datetime import date, datetime
from decimal import Decimal

from penstock.errors import DefinitionError
from penstock.model.time import instant
from penstock.testing import DAY


def comparable(value: object) -> object:
    """A value so that equal ones are equal: decimals and whole numbers exactly, floats to 12 digits, times as instants.

    >>> comparable(Decimal("1.50")) == comparable(Decimal("1.5")), comparable(True) == comparable(1)
    (True, False)
    """
    if isinstance(value, bool):
        return ("bool", value)
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else float(f"{value:.12g}")
    if isinstance(value, datetime):
        return ("time", instant(value))
    if isinstance(value, list):
        return tuple(comparable(part) for part in value)
    if isinstance(value, dict):
        return tuple((name, comparable(part)) for name, part in value.items())
    return value


def expected(written: object, like: object) -> object:
    """What a script says, in the form of the value that it is compared with: '12:00' is a time where one stands."""
    if isinstance(written, list) and isinstance(like, list) and len(written) == len(like):
        return tuple(expected(one, other) for one, other in zip(written, like, strict=True))
    if isinstance(written, str) and isinstance(like, datetime):
        try:
            return ("time", instant(written, day=DAY))
        except DefinitionError:
            return written
    if isinstance(written, str) and type(like) is date:
        return date.fromisoformat(written) if _is_date(written) else written
    if isinstance(written, str) and isinstance(like, float) and not math.isfinite(like):
        return comparable(float(written)) if written.lower() in _NO_NUMBERS else written
    if isinstance(like, bool) and isinstance(written, int):
        return ("bool", bool(written))
    number = isinstance(written, (int, float, Decimal)) and not isinstance(written, bool)
    if number and isinstance(like, float):
        return comparable(float(written))  # type: ignore[arg-type]
    if isinstance(written, float) and isinstance(like, Decimal):
        return Decimal(repr(written))
    return comparable(written)


_NO_NUMBERS = ("nan", "infinity", "-infinity", "inf", "-inf")


def _is_date(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


def literal(value: object) -> str:
    """A value as SQL writes it, for messages."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        text = value.isoformat(sep=" ").removesuffix("+00:00")
        return f"'{text.removeprefix('2000-01-01 ')}'"
    if isinstance(value, list):
        return f"array({', '.join(map(literal, value))})"
    if isinstance(value, dict):
        return f"struct({', '.join(f'{literal(part)} AS {name}' for name, part in value.items())})"
    if isinstance(value, (str, date)):
        return "'" + str(value).replace("'", "''") + "'"
    return str(value)
