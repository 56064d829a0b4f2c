"""Keeps the large state of an app mapped in the memory of its standby: after each commit the segments that it lists."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from penstock.state.mapping import all_mapped
from penstock.state.segment import Segment, SegmentError
from penstock.store import Reader, StoreError

#: Seconds between two looks at what the last commit lists.
_LOOK: Final = 0.5


class StateFollower:
    """Maps segments of the app that runs in a directory. A step after the takeover then has them at hand.

    State in the store's own tables is read key by key, and needs nothing.
    """

    def __init__(self, directory: Path) -> None:
        self._reader = Reader(directory)

    def follow(self, is_needed: Callable[[], bool]) -> None:
        """Follows until this process is to take over."""
        try:
            while not is_needed():
                self.look()
                time.sleep(_LOOK)
        finally:
            self._reader.close()

    def look(self) -> list[Segment]:
        """Maps what the last commit lists; the segments. What is gone or unreadable now is left to the next look."""
        with suppress(StoreError, SegmentError):
            segments = self._reader.segments()
            all_mapped(self._reader.segments_at, segments)
            return segments
        return []
