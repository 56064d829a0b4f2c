"""Which values of Python a column of a type takes, where a reader gives values that may be anything.

>>> fitting("int")(7), fitting("double")(7), fitting("array<string>")(["a", None])
(7, 7.0, ['a', None])
>>> fitting("int")("7")
Traceback (most recent call last):
penstock.errors.RowError: '7' is not of type int
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from penstock.errors import DefinitionError, RowError
from penstock.model.types import INTEGERS, decimal_of

Fit = Callable[[Any], Any]


def fitting(kind: str) -> Fit:
    """A function that gives a value as the column takes it, null as null, and raises where it does not fit."""
    if kind.startswith("array<"):
        inner = fitting(kind[6:-1])
        test: Fit = lambda value: [inner(part) for part in value] if isinstance(value, list) else _no(value, kind)  # noqa: E731
    elif kind in INTEGERS:
        test = _integer(kind)
    elif kind.startswith("decimal("):
        test = _decimal(kind)
    elif kind in _SCALARS:
        test = _SCALARS[kind]
    else:
        raise DefinitionError(f"Avro cannot give a column of type '{kind}'")
    return lambda value: None if value is None else test(value)


def _no(value: object, kind: str) -> Any:
    shown = repr(value)
    raise RowError(f"{shown if len(shown) <= 100 else shown[:100] + '…'} is not of type {kind}")


def _integer(kind: str) -> Fit:
    limit = 1 << (INTEGERS[kind] - 1)

    def fit(value: Any) -> Any:
        is_one = isinstance(value, int) and not isinstance(value, bool) and -limit <= value < limit
        return value if is_one else _no(value, kind)

    return fit


def _decimal(kind: str) -> Fit:
    precision, scale = decimal_of(kind)

    def fit(value: Any) -> Any:
        if not isinstance(value, Decimal) or not value.is_finite():
            return _no(value, kind)
        _, digits, exponent = value.as_tuple()
        assert isinstance(exponent, int)
        exact = -exponent <= scale or not any(digits[scale - -exponent :])
        whole = len(digits) + exponent
        return value if exact and whole <= precision - scale else _no(value, kind)

    return fit


def _double(value: Any) -> Any:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else _no(value, "double")


def _of(kind: str, *types: type) -> Fit:
    return lambda value: value if isinstance(value, types) else _no(value, kind)


def _string(value: Any) -> Any:
    return str(value) if isinstance(value, (str, uuid.UUID)) else _no(value, "string")


def _day(value: Any) -> Any:
    return value if isinstance(value, date) and not isinstance(value, datetime) else _no(value, "date")


def _moment(value: Any) -> Any:
    aware = isinstance(value, datetime) and value.tzinfo is not None
    return value if aware else _no(value, "timestamp")


_SCALARS: dict[str, Fit] = {
    "float": _double, "double": _double, "boolean": _of("boolean", bool), "string": _string,
    "binary": _of("binary", bytes), "date": _day, "timestamp": _moment,
}  # fmt: skip
