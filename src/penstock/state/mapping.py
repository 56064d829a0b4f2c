"""The segments that this process has mapped into memory. Those that nobody used for a while are let go.

A mapped file keeps its space on the disk after it was removed. So segments that compaction has replaced must not stay
mapped for long.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

from penstock.state.segment import MappedSegment, Segment

#: Seconds after which a segment that nobody used is let go, and seconds between two looks.
UNUSED, EVERY = 60.0, 10.0


class SegmentCache:
    """Maps each segment once. Safe for several threads."""

    def __init__(self, unused: float = UNUSED, clock: Callable[[], float] = time.monotonic) -> None:
        self._unused, self._clock = unused, clock
        self._mapped: dict[tuple[str, Segment], tuple[MappedSegment, float]] = {}
        self._looked = clock()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._mapped)

    def __call__(self, root: str, segment: Segment) -> MappedSegment:
        """A segment, mapped."""
        now, key = self._clock(), (root, segment)
        with self._lock:
            known = self._mapped.get(key)
        opened = MappedSegment(root, segment) if known is None else known[0]
        with self._lock:
            self._mapped[key] = opened, now
            if now - self._looked > min(EVERY, self._unused):
                self._looked = now
                old = [one for one, (_, used) in self._mapped.items() if now - used > self._unused]
                for one in old:
                    del self._mapped[one]
        return opened


#: One for a process: tasks of the same worker share what they have mapped.
mapped: Final = SegmentCache()
