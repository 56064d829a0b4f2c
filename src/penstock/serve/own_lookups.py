"""Lookups by whole key that the server answers itself, in its event loop: a process would take longer."""

from __future__ import annotations

import asyncio
import time

from penstock.errors import PenstockError
from penstock.query.key_pages import KeyPages, Page
from penstock.store.key_lookup import UNUSED
from penstock.store.reader import Reader
from penstock.store.segment_lookup import SegmentQuestion


class OwnLookups:
    """Answers from a store that is a file. Unmaps files after a while without requests."""

    def __init__(self, reader: Reader, largest: int) -> None:
        self._pages = KeyPages(reader, largest)
        self._asked = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def answer(self, question: SegmentQuestion) -> tuple[Page, Page] | None:
        """The page, and one with the number of the commit; None if a process has to answer."""
        self._asked = time.monotonic()
        if self._timer is None:
            self._look_after(UNUSED)
        try:
            return self._pages.answer(question)
        except PenstockError:  # the process reports what is wrong
            return None

    def _look_after(self, seconds: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(seconds, self._forget_unused)

    def _forget_unused(self) -> None:
        self._timer, left = None, self._asked + UNUSED - time.monotonic()
        if left > 0:
            self._look_after(left)
        else:
            self._pages.forget()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._pages.close()
