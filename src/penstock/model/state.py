"""The state of a processor for one key: values, lists and maps, each of a declared type, and timers.

A processor declares its state as attributes of its class; a `Cell` holds what one key has of it:

    class Clicks(ps.Processor):
        count = ps.value("bigint", default=0)
        pages = ps.list_of("string", ttl="1 day")

What is older than `ttl` since it was written, by the clock, is gone.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, MutableMapping, MutableSequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from typing import Any, Generic, TypeVar, cast, overload

from penstock.errors import DefinitionError
from penstock.model.cell import Cell, Entry, put_in
from penstock.model.kinds import Kind, kind_of
from penstock.model.time import Duration, positive, show_duration

T = TypeVar("T")
V = TypeVar("V")


@dataclass(repr=False)
class State(Generic[T]):
    """A state that a processor declares: its type, and how long it lives after it was written."""

    type: str
    ttl: Duration | None = None
    name: str = ""

    def __set_name__(self, owner: object, name: str) -> None:
        self.name = name

    @cached_property
    def kind(self) -> Kind:
        return kind_of(self.type)

    @property
    @abstractmethod
    def shape(self) -> str:
        """What it is, in short: another shape under the same name is another state."""

    def entry(self, value: object, cell: Cell) -> Entry:
        """A value as it is held."""
        return self.kind.take(value), None if self.ttl is None else cell.now + self.ttl

    @abstractmethod
    def dump(self, held: Any) -> Any:
        """What is held, for JSON."""

    @abstractmethod
    def load(self, stored: Any) -> Any:
        """What is held, from JSON."""

    @abstractmethod
    def shown(self, held: Any) -> Any:
        """What is held, as one who asks for it sees it."""

    def _cell(self, instance: Any) -> Cell:
        cell: Cell | None = instance._cell
        if cell is None:
            raise DefinitionError(f"the state '{self.name}' belongs to a key", hint="use it in on_event and on_timer")
        return cell

    def _said(self) -> str:
        return "" if self.ttl is None else f", ttl={show_duration(self.ttl)!r}"


@dataclass(repr=False)
class Value(State[T]):
    """One value: `self.count += 1`. To set None is to clear it; it then has its default again."""

    default: T | None = None

    @property
    def shape(self) -> str:
        return self.type

    @overload
    def __get__(self, instance: None, owner: type) -> Value[T]: ...
    @overload
    def __get__(self, instance: object, owner: type) -> T: ...
    def __get__(self, instance: object | None, owner: type) -> Value[T] | T:
        if instance is None:
            return self
        cell: Cell = instance._cell or self._cell(instance)  # type: ignore[attr-defined]
        held = cell.states.get(self.name)
        if held is None or (held[1] is not None and cell.is_gone(held)):
            return self.default  # type: ignore[return-value]
        give = self.kind.give
        return held[0] if give is None else give(held[0])  # type: ignore[no-any-return]

    def __set__(self, instance: object, value: T) -> None:
        cell: Cell = instance._cell or self._cell(instance)  # type: ignore[attr-defined]
        if value is None:
            cell.put(self.name, None)
        else:
            cell.hold(self.name, (self.kind.take(value), None if self.ttl is None else cell.now + self.ttl))

    def __delete__(self, instance: object) -> None:
        self._cell(instance).put(self.name, None)

    def dump(self, held: Any) -> Any:
        return [self.kind.dumped(held[0]), held[1]]

    def load(self, stored: Any) -> Any:
        return self.kind.loaded(stored[0]), stored[1]

    def shown(self, held: Any) -> Any:
        return self.kind.given(held[0])

    def __repr__(self) -> str:
        default = "" if self.default is None else f", default={self.default!r}"
        return f"ps.value({self.type!r}{default}{self._said()})"


class ListState(MutableSequence[T]):
    """A list of one key, as code sees it."""

    def __init__(self, state: ListOf[T], cell: Cell) -> None:
        self._state, self._cell = state, cell

    def _held(self) -> list[Entry]:
        held: list[Entry] = self._cell.states.get(self._state.name, [])
        return held if self._state.ttl is None else [entry for entry in held if not self._cell.is_gone(entry)]

    def __len__(self) -> int:
        return len(self._held())

    def __getitem__(self, index: Any) -> Any:
        entries = self._held()[index]
        shown = self._state.kind.given
        return [shown(entry[0]) for entry in entries] if isinstance(index, slice) else shown(entries[0])

    def __iter__(self) -> Iterator[T]:
        shown = self._state.kind.given
        return iter([shown(entry[0]) for entry in self._held()])

    def __setitem__(self, index: Any, value: Any) -> None:
        held = list(self._held())
        several = isinstance(index, slice)
        held[index] = [self._entry(one) for one in value] if several else self._entry(value)
        self._replace(held)

    def __delitem__(self, index: Any) -> None:
        held = list(self._held())
        del held[index]
        self._replace(held)

    def insert(self, index: int, value: T) -> None:
        held = list(self._held())
        held.insert(index, self._entry(value))
        self._replace(held)

    def append(self, value: T) -> None:
        entry, name = self._entry(value), self._state.name
        held = self._cell.states.get(name)
        if held is None:
            self._replace([entry])
            return
        self._cell.changes(held, None, None)
        held.append(entry)

    def clear(self) -> None:
        self._replace([])

    def _entry(self, value: T) -> Entry:
        return self._state.entry(value, self._cell)

    def _replace(self, held: list[Entry]) -> None:
        self._cell.put(self._state.name, held or None)

    def __eq__(self, other: object) -> bool:
        return list(self) == list(other) if isinstance(other, (list, ListState)) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(list(self))


@dataclass(repr=False)
class ListOf(State[T]):
    """A list: `self.pages.append(page)`. Each of its values has a life of its own."""

    @property
    def shape(self) -> str:
        return f"[{self.type}]"

    @overload
    def __get__(self, instance: None, owner: type) -> ListOf[T]: ...
    @overload
    def __get__(self, instance: object, owner: type) -> ListState[T]: ...
    def __get__(self, instance: object | None, owner: type) -> ListOf[T] | ListState[T]:
        return self if instance is None else ListState(self, self._cell(instance))

    def __set__(self, instance: object, values: Any) -> None:
        cell = self._cell(instance)
        cell.put(self.name, [self.entry(value, cell) for value in values] or None)

    def dump(self, held: Any) -> Any:
        return [[self.kind.dumped(value), gone] for value, gone in held]

    def load(self, stored: Any) -> Any:
        return [(self.kind.loaded(value), gone) for value, gone in stored]

    def shown(self, held: Any) -> Any:
        return [self.kind.given(value) for value, _ in held]

    def __repr__(self) -> str:
        return f"ps.list_of({self.type!r}{self._said()})"


class MapState(MutableMapping[T, V]):
    """A map of one key, as code sees it."""

    def __init__(self, state: MapOf[T, V], cell: Cell) -> None:
        self._state, self._cell = state, cell

    def _held(self) -> dict[Any, Entry]:
        held: dict[Any, Entry] = self._cell.states.get(self._state.name, {})
        if self._state.ttl is None:
            return held
        return {key: entry for key, entry in held.items() if not self._cell.is_gone(entry)}

    def __len__(self) -> int:
        return len(self._held())

    def __iter__(self) -> Iterator[T]:
        shown = self._state.key_kind.given
        return iter([shown(key) for key in self._held()])

    def __getitem__(self, key: T) -> V:
        entry = self._cell.states.get(self._state.name, {}).get(self._state.key_kind.take(key))
        if entry is None or self._cell.is_gone(entry):
            raise KeyError(key)
        return cast(V, self._state.kind.given(entry[0]))

    def __setitem__(self, key: T, value: V) -> None:
        entry, name = self._state.entry(value, self._cell), self._state.name
        if name not in self._cell.states:
            self._cell.put(name, {})
        put_in(self._cell.states[name], self._state.key_kind.take(key), entry, self._cell)

    def __delitem__(self, key: T) -> None:
        self[key]  # or it is not there
        held = self._cell.states[self._state.name]
        put_in(held, self._state.key_kind.take(key), None, self._cell)
        if not held:
            self.clear()

    def clear(self) -> None:
        self._cell.put(self._state.name, None)

    def __repr__(self) -> str:
        return repr(dict(self))


@dataclass(repr=False)
class MapOf(State[V], Generic[T, V]):
    """A map: `self.seen[page] = 3`. Each of its entries has a life of its own."""

    key_type: str = "string"

    @property
    def shape(self) -> str:
        return f"{{{self.key_type}: {self.type}}}"

    @cached_property
    def key_kind(self) -> Kind:
        return kind_of(self.key_type)

    @overload
    def __get__(self, instance: None, owner: type) -> MapOf[T, V]: ...
    @overload
    def __get__(self, instance: object, owner: type) -> MapState[T, V]: ...
    def __get__(self, instance: object | None, owner: type) -> MapOf[T, V] | MapState[T, V]:
        return self if instance is None else MapState(self, self._cell(instance))

    def __set__(self, instance: object, values: Mapping[T, V]) -> None:
        cell, key = self._cell(instance), self.key_kind.take
        cell.put(self.name, {key(name): self.entry(value, cell) for name, value in values.items()} or None)

    def dump(self, held: Any) -> Any:
        key, value = self.key_kind.dumped, self.kind.dumped
        return [[key(name), value(entry[0]), entry[1]] for name, entry in held.items()]

    def load(self, stored: Any) -> Any:
        key, value = self.key_kind.loaded, self.kind.loaded
        return {key(name): (value(one), gone) for name, one, gone in stored}

    def shown(self, held: Any) -> Any:
        return {self.key_kind.given(key): self.kind.given(entry[0]) for key, entry in held.items()}

    def __repr__(self) -> str:
        return f"ps.map_of({self.key_type!r}, {self.type!r}{self._said()})"


@overload
def value(type: str, *, default: T, ttl: str | timedelta | None = None) -> Value[T]: ...
@overload
def value(type: str, *, ttl: str | timedelta | None = None) -> Value[Any]: ...
def value(type: str, *, default: Any = None, ttl: str | timedelta | None = None) -> Value[Any]:
    """One value of a key, with its default: `ps.value("bigint", default=0)`."""
    state: Value[Any] = Value(type, _ttl(ttl), default=default)
    state.kind.taken(default)
    return state


def list_of(type: str, *, ttl: str | timedelta | None = None) -> ListOf[Any]:
    """A list of values of a key: `ps.list_of("string")`."""
    kind_of(type)
    return ListOf(type, _ttl(ttl))


def map_of(key: str, type: str, *, ttl: str | timedelta | None = None) -> MapOf[Any, Any]:
    """A map of a key: `ps.map_of("string", "bigint")`."""
    kind_of(type)
    if kind_of(key).name.startswith("array<"):
        raise DefinitionError(f"the keys of a map are no {key}", hint="take a scalar")
    return MapOf(type, _ttl(ttl), key_type=key)


def _ttl(ttl: str | timedelta | None) -> Duration | None:
    return None if ttl is None else positive(ttl, "ttl")
