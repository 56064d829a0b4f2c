"""What a stateful bolt has by key, and what a component has as attributes: as bytes between epochs.

>>> state = State({key_of(("be",)): dumps(2)}, lambda: {"be", "to"})
>>> state["be"] += 1
>>> state["to"] = state.get("to", 0) + 1
>>> sorted(loads(value) for value in state.changes().values())
[1, 3]
"""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable, Iterator, MutableMapping
from functools import cached_property
from typing import Any, Final

from penstock.errors import PenstockError, RowError
from penstock.topology.collector import Collector
from penstock.topology.components import Component, Context
from penstock.topology.groupings import key_of

_ABSENT: Final = object()
_PLAIN: Final = frozenset({int, str, float, bool, bytes, type(None)})
#: The most bytes of the attributes of one task of a component.
MOST_BYTES: Final = 1_000_000


def dumps(value: Any) -> bytes:
    return pickle.dumps(value, protocol=5)


def loads(data: bytes) -> Any:
    return pickle.loads(data)


class State(MutableMapping[Any, Any]):
    """The state of the keys that an epoch has tuples of. `allowed` are their values; it is asked only in doubt."""

    def __init__(self, held: dict[bytes, bytes], allowed: Callable[[], set[Any]]) -> None:
        self._held, self._ask = held, allowed
        self._live: dict[Any, Any] = {}
        self._set: set[Any] = set()

    def __getitem__(self, key: Any) -> Any:
        name = key if type(key) is str else _encoded(key)
        value = self._live.get(name, self)
        if value is self:
            value = self._live[name] = self._load(name, key)
        if value is _ABSENT:
            raise KeyError(key)
        return value

    def get(self, key: Any, default: Any = None) -> Any:
        name = key if type(key) is str else _encoded(key)
        value = self._live.get(name, self)
        if value is self:
            value = self._live[name] = self._load(name, key)
        return default if value is _ABSENT else value

    def __setitem__(self, key: Any, value: Any) -> None:
        name = key if type(key) is str else _encoded(key)
        if name not in self._live:
            self._load(name, key)
        self._live[name] = value
        self._set.add(name)

    def __delitem__(self, key: Any) -> None:
        if key not in self:
            raise KeyError(key)
        self[key] = _ABSENT

    def __contains__(self, key: object) -> bool:
        return self.get(key, _ABSENT) is not _ABSENT

    def __iter__(self) -> Iterator[Any]:
        return (key for key in self._allowed if key in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    @cached_property
    def _allowed(self) -> set[Any]:
        return self._ask()

    def _load(self, name: Any, key: Any) -> Any:
        data = self._held.get(_encoded(name))
        if data is not None:
            return loads(data)
        if key not in self._allowed:
            raise RowError(
                f"the state of {key!r} is not available: no tuple of this epoch in this task has that key",
                hint="a stateful bolt sees the state of the fields that it is grouped by",
            )
        return _ABSENT

    def changes(self) -> dict[bytes, bytes | None]:
        """What has changed, by key as bytes; None where nothing is left."""
        changes: dict[bytes, bytes | None] = {}
        for name, value in self._live.items():
            if name in self._set or type(value) not in _PLAIN:
                key = _encoded(name)
                data = None if value is _ABSENT else dumps(value)
                if data != self._held.get(key):
                    changes[key] = data
        return changes


class _Encoded(bytes):
    """A key that is not text, as bytes already."""


def _encoded(key: Any) -> bytes:
    if type(key) is _Encoded:
        return key
    return _Encoded(key_of(key if type(key) is tuple else (key,)))


# attributes


class _Pickler(pickle.Pickler):
    def persistent_id(self, value: Any) -> str | None:
        if isinstance(value, Collector):
            return "collector"
        return "context" if isinstance(value, Context) else None


class PreparedComponent:
    """A component that was made ready once in this process, to be taken up in each epoch with what it remembers.

    What `prepare` or `open` made and cannot be pickled stays in the process.
    """

    def __init__(self, component: Component, collector: Collector, context: Context) -> None:
        self._class = type(component)
        self.collector, self.context = collector, context
        instance = self._class.__new__(self._class)
        instance.__dict__.update(copy.deepcopy(vars(component)))
        ready: Any = instance
        (ready.open if hasattr(instance, "open") else ready.prepare)(context, collector)
        self._made = instance
        self._stays = {name: value for name, value in vars(instance).items() if not self._pickles(value)}
        self._begins = self._dumped({name: value for name, value in vars(instance).items() if name not in self._stays})

    def taken_up(self, remembered: bytes | None) -> Component:
        """The component as it was at the end of the last epoch."""
        component = self._class.__new__(self._class)
        component.__dict__.update(self._stays)
        component.__dict__.update(self._loaded(self._begins if remembered is None else remembered))
        return component

    def changed(self, component: Component, remembered: bytes | None) -> bytes | None:
        """What it is to remember, where that is another than before."""
        attributes = {n: v for n, v in vars(component).items() if self._stays.get(n, _ABSENT) is not v and n != "state"}
        try:
            data = self._dumped(attributes)
        except Exception as error:
            raise PenstockError(
                f"an attribute of {self._class.__name__} cannot be stored: {error}",
                hint="make it in prepare(…) or open(…), which are called once in each process",
            ) from error
        if len(data) > MOST_BYTES:
            raise PenstockError(
                f"the attributes of {self._class.__name__} take {len(data):,} bytes a task: {MOST_BYTES:,} may be",
                hint="keep what grows in the state of a ps.StatefulBolt, by key",
            )
        return None if data == (self._begins if remembered is None else remembered) else data

    def cleanup(self) -> None:
        self._made.cleanup()

    def _pickles(self, value: Any) -> bool:
        try:
            self._dumped({"": value})
        except Exception:  # whatever a pickler raises
            return False
        return True

    def _dumped(self, attributes: dict[str, Any]) -> bytes:
        buffer = io.BytesIO()
        _Pickler(buffer, protocol=5).dump(attributes)
        return buffer.getvalue()

    def _loaded(self, data: bytes) -> dict[str, Any]:
        return dict(_Unpickler(io.BytesIO(data), self).load())


class _Unpickler(pickle.Unpickler):
    def __init__(self, buffer: io.BytesIO, prepared: PreparedComponent) -> None:
        super().__init__(buffer)
        self._prepared = prepared

    def persistent_load(self, name: Any) -> Any:
        return self._prepared.collector if name == "collector" else self._prepared.context
