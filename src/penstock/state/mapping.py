"""The segments that this process has mapped into memory. Those that nobody used for a while are let go.

A mapped file keeps its space on the disk after it was removed. So segments that compaction has replaced must not stay
mapped for long.
"""

from __future__ import annotations

import struct
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa

from penstock.process_state import process
from penstock.state.segment import MappedSegment, MissingSegment, Segment, SegmentError

#: What may be wrong with a file that was written by nobody.
_DAMAGE: Final = (pa.ArrowException, struct.error, ValueError, KeyError, IndexError, OSError)
_HINT: Final = "restore a savepoint (penstock savepoint restore), or compute the view again (penstock batch)"

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
        mapped = opened(root, segment) if known is None else known[0]
        with self._lock:
            self._mapped[key] = mapped, now
            if now - self._looked > min(EVERY, self._unused):
                self._looked = now
                old = [one for one, (_, used) in self._mapped.items() if now - used > self._unused]
                for one in old:
                    del self._mapped[one]
        return mapped


def opened(root: str, segment: Segment) -> MappedSegment:
    """Maps a segment; refuses one whose file is missing or damaged, with the file's name."""
    check_file(root, segment)
    try:
        return MappedSegment(root, segment)
    except MissingSegment:
        check_file(root, segment)
        raise
    except (SegmentError, *_DAMAGE) as error:
        detail = error.detail if isinstance(error, SegmentError) else str(error)
        raise SegmentError(f"the file '{Path(root) / segment.path}' is damaged", detail=detail, hint=_HINT) from error


def check_file(root: str, segment: Segment) -> None:
    """Refuses a segment whose file is missing or too short."""
    path = Path(root) / segment.path
    try:
        size = path.stat().st_size
    except OSError as error:
        raise MissingSegment(
            f"the file '{path}' is missing", detail=f"'{segment.owner}' has rows in it: {error.strerror}", hint=_HINT
        ) from error
    if size < segment.offset + segment.length:
        raise SegmentError(
            f"the file '{path}' is damaged",
            detail=f"it has {size} bytes, and at least {segment.offset + segment.length} are listed",
            hint=_HINT,
        )


def mapped(root: str, segment: Segment) -> MappedSegment:
    """A segment, mapped once for this process: tasks of the same worker share it."""
    return process.of(SegmentCache)(root, segment)


def all_mapped(root: str, segments: Sequence[Segment]) -> list[MappedSegment]:
    """Segments, mapped; the newest first."""
    return sorted((mapped(root, segment) for segment in segments), key=lambda one: -one.segment.run)
