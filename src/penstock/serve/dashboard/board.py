"""One refresh for all open pages: reads a snapshot once a second and hands it to each of them."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable
from typing import Final, TypeAlias

from penstock.errors import PenstockError
from penstock.serve.dashboard.palette import Palette
from penstock.serve.dashboard.read import SnapshotReader
from penstock.serve.dashboard.snapshot import Snapshot

#: Seconds between two snapshots; after a slow one, the pause as a multiple of the time that it took.
_EVERY: Final = 1.0
_REST: Final = 5.0
_log = logging.getLogger("penstock.dashboard")

Draw: TypeAlias = Callable[[Snapshot], None]


class Board:
    """Knows the open pages. While there is none, nothing is read."""

    def __init__(self, reader: SnapshotReader) -> None:
        self._reader = reader
        self._pages: list[Draw] = []
        self._watched: Counter[str] = Counter()
        self._task: asyncio.Task[None] | None = None
        self._now = asyncio.Event()
        self.last: Snapshot | None = None
        self._palettes: dict[str, Palette] = {"": Palette()}

    def open(self, draw: Draw) -> None:
        """A page is there: it is drawn at once with what is known, and then with every snapshot."""
        self._pages.append(draw)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._refresh())
        self._now.set()

    def close(self, draw: Draw) -> None:
        """A page is gone."""
        if draw in self._pages:
            self._pages.remove(draw)

    def watch(self, view: str | None, instead_of: str | None = None) -> None:
        """A page shows a view: its rows are read too, soon."""
        if instead_of is not None:
            self._watched[instead_of] -= 1
        if view is not None:
            self._watched[view] += 1
            self._now.set()

    @property
    def palette(self) -> Palette:
        """The colours of streams, the same in all charts and pages."""
        return self._palettes[""]

    def palette_of(self, view: str) -> Palette:
        """The colours of a view's keys."""
        return self._palettes.setdefault(view, Palette())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _refresh(self) -> None:
        while self._pages:
            began = time.monotonic()
            self._now.clear()
            snapshot = await self._read()
            self.last = snapshot
            self.palette.learn(sorted(snapshot.streams))
            for draw in list(self._pages):
                try:
                    draw(snapshot)
                except Exception:  # one page must not stop the others
                    _log.exception("a page could not be drawn")
            taken = time.monotonic() - began
            rest = max(_EVERY - taken, min(30.0, _REST * taken), 0.05)
            try:
                await asyncio.wait_for(self._now.wait(), rest)
                await asyncio.sleep(0.05)  # several that come at once get one snapshot
            except TimeoutError:
                continue

    async def _read(self) -> Snapshot:
        try:
            return await self._reader.read([view for view, count in self._watched.items() if count > 0])
        except PenstockError as error:
            return Snapshot(missing=error.message)
        except Exception as error:
            _log.exception("the store could not be read")
            return Snapshot(missing=f"the store could not be read: {error}")
