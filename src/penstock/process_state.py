"""The one place for what a process keeps for itself, beyond the objects that own each other.

A Python worker of Spark runs many tasks, one after the other, and no object of Penstock outlives a task there. What
tasks should not read or make again is kept here, one object per class. Each class has a bound of its own.

>>> process = ProcessState()
>>> names = process.of(list)
>>> names.append("ann")
>>> process.of(list)
['ann']
>>> process.reset()
>>> process.of(list)
[]
"""

from __future__ import annotations

import atexit
import threading
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

_Kept = TypeVar("_Kept")
_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class ProcessState:
    """Objects by their class, each made when it is first asked for. Safe for several threads."""

    def __init__(self) -> None:
        self._objects: dict[type[Any], Any] = {}
        self._lock = threading.RLock()

    def of(self, kind: type[_Kept]) -> _Kept:
        """The one object of a class."""
        with self._lock:
            if kind not in self._objects:
                self._objects[kind] = kind()
            instance: _Kept = self._objects[kind]
            return instance

    def reset(self) -> None:
        """Lets go of everything. Objects that have a method `close` are closed."""
        with self._lock:
            objects, self._objects = self._objects, {}
        for one in objects.values():
            if hasattr(one, "close"):
                one.close()


class RecentlyUsed(Generic[_Key, _Value]):
    """The values that were used last, up to a bound. `drop` gets each that is evicted. Safe for several threads.

    >>> letters = RecentlyUsed(2, print)
    >>> [letters.made(letter, str.upper) for letter in "aba"]
    ['A', 'B', 'A']
    >>> letters.made("c", str.upper)
    B
    'C'
    >>> letters.get("b")
    """

    def __init__(self, most: int, drop: Callable[[_Value], object] = lambda value: None) -> None:
        self._most, self._drop = most, drop
        self._values: dict[_Key, _Value] = {}
        self._lock = threading.RLock()

    def get(self, key: _Key) -> _Value | None:
        """The value of a key; None if there is none."""
        with self._lock:
            if key in self._values:
                self._values[key] = self._values.pop(key)  # the last one is the newest
            return self._values.get(key)

    def put(self, key: _Key, value: _Value) -> None:
        """A key has another value."""
        with self._lock:
            if key in self._values:
                self._drop(self._values.pop(key))
            self._values[key] = value
            while len(self._values) > self._most:
                self._drop(self._values.pop(next(iter(self._values))))

    def made(self, key: _Key, make: Callable[[_Key], _Value]) -> _Value:
        """The value of a key, made if it is not there."""
        with self._lock:
            if key not in self._values:
                self.put(key, make(key))
            return self._values.setdefault(key, self._values.pop(key))

    def clear(self) -> None:
        """Drops all values."""
        with self._lock:
            while self._values:
                self._drop(self._values.popitem()[1])


process: Final = ProcessState()
atexit.register(process.reset)
