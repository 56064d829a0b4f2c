"""Values on both sides of an assertion: what a view holds and what a script says, in one form."""

from __future__ import annotations

import json
import math
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from penstock.errors import DefinitionError
from penstock.model.time import instant
from penstock.model.types import fields_of, is_float, type_name
from penstock.sql.times import store_text
from penstock.testing import DAY


def comparable(value: object) -> object:
    """A value so that equal ones are equal: numbers as numbers, times as instants, floats to 12 digits.

    >>> comparable(Decimal("1.50")) == comparable(1.5), comparable(True) == comparable(1)
    (True, False)
    """
    if isinstance(value, bool):
        return ("bool", value)
    if isinstance(value, Decimal):
        value = int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else float(f"{value:.12g}")
    if isinstance(value, datetime):
        return ("time", instant(value))
    if isinstance(value, list):
        return tuple(comparable(part) for part in value)
    if isinstance(value, dict):
        return tuple((name, comparable(part)) for name, part in value.items())
    return value


def fitting(value: object, kind: str) -> object:
    """A constant as the value of a column: numbers become those of its type.

    >>> fitting(Decimal("1.5"), "double"), fitting(2, "decimal(4,1)")
    (1.5, 2)
    """
    if isinstance(value, list) and kind.startswith("array<"):
        return [fitting(part, kind[6:-1]) for part in value]
    if isinstance(value, dict) and kind.startswith(("map<", "struct<")):
        types = dict(fields_of(kind))
        of = (lambda _: types["value"]) if kind.startswith("map<") else types.get
        return {name: fitting(part, type_name(of(name) or "string")) for name, part in value.items()}
    if is_float(kind) and isinstance(value, (int, float, Decimal)) and not isinstance(value, bool):
        return float(value)
    return value


def expected(said: object, like: object) -> object:
    """What a script says, in the form of the value that it is compared with: '12:00' is a time where one stands."""
    if isinstance(said, str) and isinstance(like, datetime):
        try:
            return ("time", instant(said, day=DAY))
        except DefinitionError:
            return said
    if isinstance(said, str) and type(like) is date:
        return date.fromisoformat(said) if _is_date(said) else said
    if isinstance(said, str) and isinstance(like, float) and math.isnan(like):
        return "NaN" if said.lower() == "nan" else said
    if isinstance(like, bool) and isinstance(said, int):
        return ("bool", bool(said))
    return comparable(said)


def _is_date(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


def stored(value: Any) -> object:
    """A value of a view as the store shows it in SQL."""
    if isinstance(value, datetime):
        return store_text(instant(value))
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, Decimal):
        return float(value) if len(value.as_tuple().digits) <= 15 else str(value)
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    if isinstance(value, (list, dict)):
        return json.dumps(value, default=stored)
    return value


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
