"""A processor's object for the kernel: its plain values are attributes of the object, and not entries of a cell.

A value without a time to live is most of what processors keep, and most of what an event costs. In the class of the
object that is made here such a value is a property: reading it runs no Python code, and writing it one comparison of
types. It behaves as `model/state.py` says.

>>> from penstock.model.state import value
>>> class Clicks(Processor):
...     output = "n bigint"
...     count = value("bigint", default=0)
>>> user = fast_object(Clicks)
>>> user.count += 1
>>> user.count, vars(user)
(1, {'_state_count': 1})
>>> del user.count
>>> user.count
0
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any

from penstock.model.kinds import Kind
from penstock.model.processing import states_of
from penstock.model.processor import Processor
from penstock.model.state import State, Value
from penstock.model.types import INTEGERS


def is_plain(state: State[Any]) -> bool:
    """Whether a state is one value that lives until it is cleared."""
    return isinstance(state, Value) and state.ttl is None


def attribute(state: State[Any]) -> str:
    """The attribute that has a plain value."""
    return f"_state_{state.name}"


def fast_object(processor: type[Processor]) -> Any:
    """An object of a class of its own, derived from the user's."""
    plain = [state for state in states_of(processor).values() if isinstance(state, Value) and is_plain(state)]
    attributes = [attribute(state) for state in plain]

    def clear(self: Any) -> None:
        processor.clear(self)
        for name in attributes:
            self.__dict__.pop(name, None)

    body: dict[str, Any] = {"clear": clear, "__module__": processor.__module__, "__doc__": processor.__doc__}
    made = type(processor.__name__, (processor,), body | {attribute(state): state.default for state in plain})
    user = made()
    for state in plain:  # now that the dictionary is there that they write to
        setattr(made, state.name, _property(state, vars(user)))
    return user


def _property(state: Value[Any], values: dict[str, Any]) -> property:
    take, read_as, name = state.kind.take, state.kind.given, attribute(state)

    def read(self: Any) -> Any:
        held = values.get(name)
        return state.default if held is None else read_as(held)

    def put(self: Any, value: Any) -> None:
        if value is None:
            values.pop(name, None)
        else:
            values[name] = take(value)

    def delete(self: Any) -> None:
        values.pop(name, None)

    return property(
        attrgetter(name) if state.kind.give is None else read, _writer(state.kind, values, name, put), delete
    )


def _writer(
    kind: Kind, values: dict[str, Any], name: str, put: Callable[[Any, Any], None]
) -> Callable[[Any, Any], None]:
    """Writes a value of the right class as it is, and leaves the others to `put`."""
    exact = kind.exact
    if exact is None:
        return put
    if kind.name not in INTEGERS:

        def write(self: Any, value: Any) -> None:
            if value.__class__ is exact:
                values[name] = value
            else:
                put(self, value)

        return write
    most = (1 << (INTEGERS[kind.name] - 1)) - 1
    least = -most - 1

    def write_number(self: Any, value: Any) -> None:
        if value.__class__ is int and least <= value <= most:
            values[name] = value
        else:
            put(self, value)

    return write_number
