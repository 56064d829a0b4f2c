"""The user code that this process runs now, so that code that hangs can be named.

Callers of user code register once for many rows, with something that grows as rows are done. That costs nothing per
row: a watcher compares it with what it was before.

>>> done = []
>>> with operator("enrich"), running("map(slow)", done):
...     [(call.operator, call.function, call.position) for call in running_calls()]
[('enrich', 'map(slow)', 'row 0')]
>>> running_calls()
[]
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Sized
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import count
from typing import Any, Final

from penstock.process_state import process

#: The most characters of a key that are shown.
_SHOWN: Final = 80


@dataclass(frozen=True, eq=False)
class RunningCall:
    """User code that runs: of which operator, which function, and how many rows or keys are done."""

    operator: str | None
    function: str
    done: Sized | None = None
    keys: Sequence[Any] | None = None

    @property
    def progress(self) -> int:
        """A number that grows as long as the code makes progress."""
        return 0 if self.done is None else len(self.done)

    @property
    def position(self) -> str | None:
        """The key or the row that the code works on, where that is known. Rows count from 0 in their batch."""
        number = self.progress
        if self.keys is not None:
            return f"key {str(self.keys[number])[:_SHOWN]}" if number < len(self.keys) else None
        return None if self.done is None else f"row {number}"


class _Calls:
    """All calls of this process, of any thread."""

    def __init__(self) -> None:
        self.by_number: dict[int, RunningCall] = {}
        self.numbers = count()
        self.operator: ContextVar[str | None] = ContextVar("operator", default=None)


@contextmanager
def operator(name: str) -> Iterator[None]:
    """User code that runs inside belongs to this operator."""
    calls = process.of(_Calls)
    token = calls.operator.set(name)
    try:
        yield
    finally:
        calls.operator.reset(token)


@contextmanager
def running(function: str, done: Sized | None = None, keys: Sequence[Any] | None = None) -> Iterator[None]:
    """User code runs inside. `done` grows with each row, or with each of the `keys`."""
    calls = process.of(_Calls)
    number = next(calls.numbers)
    calls.by_number[number] = RunningCall(calls.operator.get(), function, done, keys)
    try:
        yield
    finally:
        del calls.by_number[number]


def running_calls() -> list[RunningCall]:
    """The user code that runs now in this process."""
    return list(process.of(_Calls).by_number.values())
