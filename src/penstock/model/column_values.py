"""Which Python values fit a column of a type, and how the model keeps them. Others are refused: nothing is rounded.

>>> fit(2, "int"), fit(Decimal("1.5"), "decimal(4,2)"), fit({"a": 1}, "map<string,int>")
(2, Decimal('1.50'), {'a': 1})
>>> fit(300, "tinyint")
Traceback (most recent call last):
penstock.errors.DefinitionError: 300 is not of type tinyint
  detail: a tinyint is a whole number from -128 to 127
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from datetime import date, datetime
from decimal import Context, Decimal, InvalidOperation
from typing import Final

from penstock.errors import DefinitionError, unknown
from penstock.model.time import Instant, instant
from penstock.model.types import INTEGERS, decimal_of, fields_of, type_name

_DAY: Final = date(1970, 1, 1)
#: Decimals have up to 38 digits; Python's default context would round them to 28.
DIGITS: Final = Context(prec=76)


def fit(value: object, kind: str, day: Instant = 0) -> object:
    """The value as the model keeps it; `day` is that of times without a date."""
    if value is None:
        return None
    if kind in INTEGERS:
        return _integer(value, kind)
    if kind in ("float", "double"):
        return _float(value, kind)
    if kind.startswith("decimal("):
        return _decimal(value, kind)
    if kind == "timestamp":
        return _timestamp(value, day)
    if kind == "date":
        return _date(value)
    if kind.startswith("array<"):
        if not isinstance(value, (list, tuple)):
            raise _wrong(value, kind, "give a list")
        return [fit(part, kind[6:-1], day) for part in value]
    if kind.startswith("map<"):
        return _map(value, kind, day)
    if kind.startswith("struct<"):
        return _struct(value, kind, day)
    python = {"string": str, "boolean": bool, "binary": bytes}[kind]
    if not isinstance(value, python):
        raise _wrong(value, kind, f"give {python.__name__}")
    if isinstance(value, str) and not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise _wrong(value, kind, "half of a surrogate pair is not valid text") from None
    return value


def fit_column(column: str, value: object, kind: str, day: Instant = 0) -> object:
    """The same for a column, which an error names."""
    try:
        return fit(value, kind, day)
    except DefinitionError as error:
        raise DefinitionError(
            f"the column '{column}' is {kind}: {error.message}", detail=error.detail, hint=error.hint
        ) from None


def _wrong(value: object, kind: str, detail: str) -> DefinitionError:
    return DefinitionError(f"{value!r} is not of type {kind}", detail=detail)


def _integer(value: object, kind: str) -> int:
    bound = 1 << (INTEGERS[kind] - 1)
    if not isinstance(value, int) or isinstance(value, bool) or not -bound <= value < bound:
        raise _wrong(value, kind, f"a {kind} is a whole number from {-bound} to {bound - 1}")
    return value


def _float(value: object, kind: str) -> float:
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        raise _wrong(value, kind, "give a number")
    try:
        number = float(value)
        return number if kind == "double" else float(struct.unpack("<f", struct.pack("<f", number))[0])
    except OverflowError:
        raise _wrong(value, kind, f"it is too large for a {kind}") from None


def _decimal(value: object, kind: str) -> Decimal:
    precision, scale = decimal_of(kind)
    if not isinstance(value, (int, Decimal)) or isinstance(value, bool):
        raise _wrong(value, kind, "give a Decimal or a whole number")
    number = Decimal(value)
    try:
        fitting = number.quantize(Decimal(1).scaleb(-scale), context=DIGITS)
    except InvalidOperation:
        fitting = None
    if fitting is None or not fitting.is_finite() or fitting != number or len(fitting.as_tuple().digits) > precision:
        raise _wrong(value, kind, f"it has up to {precision} digits, {scale} of them after the point")
    return fitting


def _timestamp(value: object, day: Instant) -> int:
    if isinstance(value, bool) or not isinstance(value, (str, datetime, int)):
        raise _wrong(value, "timestamp", "give ISO text, a datetime, or microseconds since 1970")
    at = instant(value, day=day)
    return _integer(at, "bigint")


def _date(value: object) -> int:
    if isinstance(value, str):
        try:
            value = date.fromisoformat(value)
        except ValueError:
            raise _wrong(value, "date", "write for example 2024-05-01") from None
    if isinstance(value, date) and not isinstance(value, datetime):
        return (value - _DAY).days
    if isinstance(value, int) and not isinstance(value, bool):
        return _integer(value, "int")
    raise _wrong(value, "date", "give ISO text, a date, or days since 1970")


def _map(value: object, kind: str, day: Instant) -> dict[object, object]:
    if not isinstance(value, Mapping):
        raise _wrong(value, kind, "give a dictionary")
    (_, of_keys), (_, of_values) = fields_of(kind)
    if None in value:
        raise _wrong(value, kind, "a map has no null keys")
    return {fit(key, type_name(of_keys), day): fit(one, type_name(of_values), day) for key, one in value.items()}


def _struct(value: object, kind: str, day: Instant) -> dict[str, object]:
    fields = fields_of(kind)
    names = [name for name, _ in fields]
    if isinstance(value, (list, tuple)) and len(value) == len(names):
        value = dict(zip(names, value, strict=True))
    if not isinstance(value, Mapping):
        raise _wrong(value, kind, f"give a dictionary with {', '.join(names)}")
    for name in value:
        if name not in names:
            raise unknown(f"field of {kind}", str(name), names)
    return {name: fit(value.get(name), type_name(of), day) for name, of in fields}
