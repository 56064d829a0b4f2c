"""Python's search for cycles of garbage, paused while a step makes many small objects that all live until its end.

Each search looks at all of them again, which takes longer than making them.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

from penstock.process_state import process


class PausedSearch:
    """How many steps of this process have paused the search, and whether it ran before."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._steps, self._was_enabled = 0, False

    def begin(self) -> None:
        with self._lock:
            if self._steps == 0:
                self._was_enabled = gc.isenabled()
                gc.disable()
            self._steps += 1

    def end(self) -> None:
        with self._lock:
            self._steps -= 1
            if self._steps == 0 and self._was_enabled:
                gc.enable()


@contextmanager
def without_gc() -> Iterator[None]:
    """Pauses the search until the last of the steps that run at the same time is done."""
    paused = process.of(PausedSearch)
    paused.begin()
    try:
        yield
    finally:
        paused.end()
