"""Values of user code: as the code has them, as the model keeps them, and as its state stores them.

>>> kind_of("timestamp").take(datetime(2000, 1, 1, tzinfo=UTC))
946684800000000
>>> kind_of("int").take("7")
Traceback (most recent call last):
penstock.errors.RowError: '7' is not of type int
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from typing import Any, Final, TypeAlias

from penstock.errors import DefinitionError, RowError
from penstock.model.column_values import DIGITS
from penstock.model.time import instant
from penstock.model.types import INTEGERS, decimal_of, fields_of, has_structs, type_name

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_DAY: Final = date(1970, 1, 1)

Turn: TypeAlias = Callable[[Any], Any]


@dataclass(frozen=True)
class Kind:
    """How values of one type pass: `take` from the user's code, `give` to it, `dump` to JSON and `load` from it.

    `pack` and `unpack` are the same for binary formats. All but `take` are None where a value stays as it is. None of
    them is called for null.
    """

    name: str
    take: Turn
    give: Turn | None = None
    dump: Turn | None = None
    load: Turn | None = None
    pack: Turn | None = None
    unpack: Turn | None = None
    exact: type | None = None  # values of just this class stay as they are; whole numbers if they are in bounds

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

    def packed(self, value: Any) -> Any:
        """The same as `pack`, and null for null."""
        return value if value is None or self.pack is None else self.pack(value)

    def unpacked(self, value: Any) -> Any:
        """The same as `unpack`, and null for null."""
        return value if value is None or self.unpack is None else self.unpack(value)


def kind_of(name: str) -> Kind:
    """The kind of a type, as Spark names it; of one that a processor can take and keep."""
    if has_structs(type_name(name)):
        raise DefinitionError(
            f"a processor has no values of type {name}", hint="take scalars, decimals and arrays of them, or JSON text"
        )
    return any_kind(name)


@lru_cache(maxsize=256)
def any_kind(name: str) -> Kind:
    """The kind of a type, also of maps and structs."""
    name = type_name(name)
    if name in INTEGERS:
        return Kind(name, _integer(name), exact=int)
    if name in ("float", "double"):
        return Kind(name, _float(name), exact=float)
    if name.startswith("decimal("):
        return Kind(name, _decimal(name), dump=str, load=Decimal, pack=str, unpack=Decimal)
    if name.startswith("array<"):
        return _array(name, any_kind(name[6:-1]))
    if name.startswith("struct<"):
        return _struct(name, {field: any_kind(kind) for field, kind in fields_of(name)})
    if name.startswith("map<"):
        return _map(name, *(any_kind(kind) for _, kind in fields_of(name)))
    if name not in _PLAIN:
        raise DefinitionError(
            f"user code has no values of type {name}",
            hint="take scalars, arrays, maps, structs, or JSON text",
        )
    return _PLAIN[name]


def _wrong(value: object, name: str) -> RowError:
    return RowError(f"{value!r} is not of type {name}")


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
            number = Decimal(value).quantize(Decimal(1).scaleb(-scale), context=DIGITS)
        except InvalidOperation:
            raise _wrong(value, name) from None
        if not number.is_finite() or len(number.as_tuple().digits) > precision:
            raise _wrong(value, name)
        return number

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
        None if of.pack is None else each(of.packed),
        None if of.unpack is None else each(of.unpacked),
    )


def _struct(name: str, parts: dict[str, Kind]) -> Kind:
    """A dictionary of all fields. One that code leaves out is null."""

    def take(value: Any) -> dict[str, Any]:
        if not isinstance(value, Mapping) or not value.keys() <= parts.keys():
            raise _wrong(value, name)
        return {field: kind.taken(value.get(field)) for field, kind in parts.items()}

    def each(turns: dict[str, Turn]) -> Turn:
        return lambda value: {field: turn(value[field]) for field, turn in turns.items()}

    return Kind(
        name,
        take,
        each({field: kind.given for field, kind in parts.items()}),
        each({field: kind.dumped for field, kind in parts.items()}),
        each({field: kind.loaded for field, kind in parts.items()}),
    )


def _map(name: str, key: Kind, value: Kind) -> Kind:
    """A dictionary; pairs in JSON. A key is never null."""

    def take(entries: Any) -> dict[Any, Any]:
        if not isinstance(entries, Mapping) or None in entries:
            raise _wrong(entries, name)
        return {key.take(one): value.taken(other) for one, other in entries.items()}

    return Kind(
        name,
        take,
        lambda entries: {key.given(one): value.given(other) for one, other in entries.items()},
        lambda entries: [[key.dumped(one), value.dumped(other)] for one, other in entries.items()],
        lambda pairs: {key.loaded(one): value.loaded(other) for one, other in pairs},
    )


_PLAIN: Final[dict[str, Kind]] = {
    "string": Kind("string", _of("string", str), exact=str),
    "boolean": Kind("boolean", _of("boolean", bool), exact=bool),
    "binary": Kind(
        "binary", _of("binary", bytes), dump=lambda value: b64encode(value).decode(), load=b64decode, exact=bytes
    ),
    "timestamp": Kind("timestamp", _timestamp, lambda value: _EPOCH + timedelta(microseconds=value)),
    "date": Kind("date", _date, lambda value: _DAY + timedelta(days=value)),
}
