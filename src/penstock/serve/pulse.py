"""Notices that a store may have changed, by any process, and wakes those that wait for it.

A commit goes into the log beside the store; for one in PostgreSQL the writer touches the note of where it is. These
files are looked at every few milliseconds while someone waits, which costs next to nothing, takes no lock and asks
nothing of the app.
"""

from __future__ import annotations

import asyncio
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from penstock.store.database import FILE, NOTE

#: Seconds between two looks; two commits within `_CLOSE` may look the same, so all are woken after `_ANYWAY` too.
_LOOK: Final = 0.005
_CLOSE: Final = 0.03
_ANYWAY: Final = 0.5


class Pulse:
    """One for all that wait in an event loop."""

    def __init__(self, directory: Path) -> None:
        self._paths = (f"{directory / FILE}-wal", str(directory / FILE), str(directory / NOTE))
        self._changed = asyncio.Event()
        self._waiting = 0
        self._task: asyncio.Task[None] | None = None

    async def wait(self, seconds: float) -> None:
        """Waits until the store may have changed, at most this number of seconds."""
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._watch())
        self._waiting += 1
        try:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), seconds)
        finally:
            self._waiting -= 1

    async def _watch(self) -> None:
        seen, since = self._look(), time.monotonic()
        while self._waiting:
            await asyncio.sleep(_LOOK)
            stamps, now = self._look(), time.monotonic()
            if stamps != seen or now - since > _ANYWAY:
                seen, since = stamps, now
            elif now - since > _CLOSE:
                continue
            self._changed.set()
            self._changed = asyncio.Event()

    def _look(self) -> tuple[object, ...]:
        return tuple(_stamp(path) for path in self._paths)


def _stamp(path: str) -> tuple[int, int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
