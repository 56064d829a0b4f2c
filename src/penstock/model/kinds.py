"""Values of a processor: as its code has them, as the model keeps them, and as JSON that its state is stored in.

>>> kind_of("timestamp").take(datetime(2000, 1, 1, tzinfo=UTC))
946684800000000
>>> kind_of("int").take("7")
Traceback (most recent call last):
penstock.errors.RowError: '7' is no int
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from typing import Any, Final, TypeAlias

from penstock.errors import DefinitionError, RowError
from penstock.model.column_values import DIGITS
from penstock.model.time import instant
from penstock.model.types import INTEGERS, decimal_of, type_name

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_DAY: Final = date(1970, 1, 1)

Turn: TypeAlias = Callable[[Any], Any]


@dataclass(frozen=True)
class Kind:
    """How values of one type pass: `take` from the user's code, `give` to it, `dump` to JSON and `load` from it.

    `give`, `dump` and `load` are None where a value stays as it is. None of them is called for null.
    """

    name: str
    take: Turn
    give: Turn | None = None
    dump: Turn | None = None
    load: Turn | None = None

    def taken(self, value: Any) -> Any:
        """The same as `take`, and null for null."""
        return None if value is None else self.take(value)

    def given(self, value: Any) -> Any:
        """The same as `give`, and null for null."""
        return value if value is None or self.give is None else self.give(value)

    def dumped(self, value: Any) -> Any:
        """The same as `dump`, and null for null."""
        return value if value is None or self.dump is None else self.dump(value)

    def loaded(self, value: Any) -> Any:
        """The same as `load`, and null for null."""
        return value if value is None or self.load is None else self.load(value)


@lru_cache(maxsize=256)
def kind_of(name: str) -> Kind:
    """The kind of a type, as Spark names it."""
    name = type_name(name)
    if name in INTEGERS:
        return Kind(name, _integer(name))
    if name in ("float", "double"):
        return Kind(name, _float(name))
    if name.startswith("decimal("):
        return Kind(name, _decimal(name), dump=str, load=Decimal)
    if name.startswith("array<"):
        return _array(name, kind_of(name[6:-1]))
    if name not in _PLAIN:
        raise DefinitionError(
            f"a processor has no values of type {name}", hint="take scalars, decimals and arrays of them, or JSON text"
        )
    return _PLAIN[name]


def _wrong(value: object, name: str) -> RowError:
    return RowError(f"{value!r} is no {name}")


def _of(name: str, python: type) -> Turn:
    def take(value: Any) -> Any:
        if not isinstance(value, python):
            raise _wrong(value, name)
        return value

    return take


def _integer(name: str) -> Turn:
    bound = 1 << (INTEGERS[name] - 1)

    def take(value: Any) -> int:
        if type(value) is int and -bound <= value < bound:
            return value
        if not isinstance(value, int) or isinstance(value, bool) or not -bound <= value < bound:
            raise _wrong(value, name)
        return value

    return take


def _float(name: str) -> Turn:
    def take(value: Any) -> float:
        if not isinstance(value, (int, float)) or isinstance(value, bool):
            raise _wrong(value, name)
        return float(value)

    return take


def _decimal(name: str) -> Turn:
    precision, scale = decimal_of(name)

    def take(value: Any) -> Decimal:
        if not isinstance(value, (int, Decimal)) or isinstance(value, bool):
            raise _wrong(value, name)
        try:
            found = Decimal(value).quantize(Decimal(1).scaleb(-scale), context=DIGITS)
        except InvalidOperation:
            raise _wrong(value, name) from None
        if not found.is_finite() or len(found.as_tuple().digits) > precision:
            raise _wrong(value, name)
        return found

    return take


def _timestamp(value: Any) -> int:
    if not isinstance(value, datetime):
        raise _wrong(value, "timestamp")
    return instant(value)


def _date(value: Any) -> int:
    if not isinstance(value, date) or isinstance(value, datetime):
        raise _wrong(value, "date")
    return (value - _DAY).days


def _array(name: str, of: Kind) -> Kind:
    def take(value: Any) -> list[Any]:
        if not isinstance(value, (list, tuple)):
            raise _wrong(value, name)
        return [of.taken(one) for one in value]

    def each(turn: Turn) -> Turn:
        return lambda values: [turn(one) for one in values]

    return Kind(
        name,
        take,
        each(of.given),  # a list of its own: what code does to it stays there
        None if of.dump is None else each(of.dumped),
        None if of.load is None else each(of.loaded),
    )


_PLAIN: Final[dict[str, Kind]] = {
    "string": Kind("string", _of("string", str)),
    "boolean": Kind("boolean", _of("boolean", bool)),
    "binary": Kind("binary", _of("binary", bytes), None, lambda value: b64encode(value).decode(), b64decode),
    "timestamp": Kind("timestamp", _timestamp, lambda value: _EPOCH + timedelta(microseconds=value)),
    "date": Kind("date", _date, lambda value: _DAY + timedelta(days=value)),
}
