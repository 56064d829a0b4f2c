"""Conditions of a question that the store applies early, so that it reads by its indexes. The question repeats them.

A condition that the store cannot decide exactly is widened or left out; rows that match are never lost.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any, Final, Protocol

from penstock.model.time import instant
from penstock.model.types import INTEGERS, decimal_of
from penstock.store.present import EXACT_DIGITS, stored_date, stored_time

_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()
_WIDER: Final = {"<": "<=", ">": ">="}


class Condition(Protocol):
    """A condition on one column: `op` is one of =, <, <=, >, >=, in, is null; values are Python's."""

    @property
    def column(self) -> str: ...
    @property
    def op(self) -> str: ...
    @property
    def values(self) -> Sequence[Any]: ...


class Unusable(Exception):
    """The store cannot apply this value."""


def rule(kind: str, sql: str, state: str | None, condition: Condition, mark: Callable[[object], str], nan: bool) -> str:
    """A condition on a column of this type as SQL; empty where the store cannot apply it.

    `sql` is what is shown and what indexes are made of, `state` what is kept. `mark` binds a value. `nan`: the
    database has NaN among its numbers.
    """
    op, values = condition.op, [value for value in condition.values if value is not None]
    if op == "is null":
        return f"{sql} IS NULL"
    try:
        if op in ("=", "in"):
            shown = [_shown(value, kind, nan) for value in values]
            return f"{sql} IN ({', '.join(map(mark, shown))})" if shown else ""
        if kind in ("timestamp", "date") and state is not None:
            return f"{state} {op} {mark(_physical(values[0], kind))}"
        if kind in INTEGERS:
            return f"{sql} {op} {mark(_shown(values[0], kind, nan))}"
        if kind in ("float", "double"):
            compared = f"{sql} {op} {mark(_shown(values[0], kind, nan))}"
            return compared if nan else f"{compared} OR typeof({sql}) = 'text'"
        if kind.startswith("decimal(") and decimal_of(kind)[0] <= EXACT_DIGITS:
            return f"{sql} {_WIDER.get(op, op)} {mark(float(values[0]))}"
    except (Unusable, ValueError, TypeError, OverflowError, InvalidOperation, IndexError):
        return ""
    return ""


def bound_rules(condition: Condition, mark: Callable[[object], str], counted: bool) -> list[str]:
    """A condition on a window's bound: rows lie by their end, and a window ends after it starts."""
    column = "__start" if condition.column == "window_start" else "__end"
    values = [value for value in condition.values if value is not None]
    try:
        bounds = [value if counted else _physical(value, "timestamp") for value in values]
    except (Unusable, OverflowError):
        return []
    marks = [mark(bound) for bound in bounds]
    if not marks:
        return []
    if len(marks) > 1:
        return [f"{column} IN ({', '.join(marks)})"]
    op = "=" if condition.op == "in" else condition.op
    ends_after = column == "__start" and op in ("=", ">", ">=")
    return [f"{column} {op} {marks[0]}", *([f"__end > {marks[0]}"] if ends_after else [])]


def _shown(value: Any, kind: str, nan: bool) -> object:
    """A value as the store shows it, for which equal values are equal."""
    if kind in INTEGERS:
        if type(value) is int and -(1 << 63) <= value < 1 << 63:
            return value
    elif kind == "boolean":
        if isinstance(value, bool):
            return value
    elif kind == "string":
        if isinstance(value, str):
            value.encode()  # what is not valid Unicode is nowhere in the store
            return value
    elif kind == "binary":
        if isinstance(value, bytes):
            return value
    elif kind == "timestamp":
        return stored_time(_physical(value, kind))
    elif kind == "date":
        return stored_date(_physical(value, kind))
    elif kind.startswith("decimal("):
        digits, scale = decimal_of(kind)
        exact = Decimal(value).quantize(Decimal(1).scaleb(-scale))
        if exact == Decimal(value):
            return float(exact) if digits <= EXACT_DIGITS else str(exact)
    elif kind in ("float", "double"):
        number = float(value)
        if number != number:
            return number if nan else "NaN"
        if number != 0 and (kind == "double" or struct.unpack("f", struct.pack("f", number))[0] == number):
            return number
    raise Unusable


def _physical(value: Any, kind: str) -> int:
    if kind == "timestamp" and isinstance(value, datetime):
        return instant(value)
    if kind == "date" and isinstance(value, date) and not isinstance(value, datetime):
        return value.toordinal() - _EPOCH_DAY
    raise Unusable


def key_is(names: Sequence[str], conditions: Sequence[Condition]) -> dict[str, Any] | None:
    """The key that the conditions name, if they name one."""
    fixed: dict[str, Any] = {}
    for condition in conditions:
        if condition.op == "is null":
            fixed[condition.column] = None
        elif condition.op == "=" and condition.values[0] is not None:
            fixed[condition.column] = condition.values[0]
    return {name: fixed[name] for name in names} if all(name in fixed for name in names) else None
