"""The segments that readers of this process have mapped. What is mapped stays readable when its file is removed."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path
from threading import Lock
from typing import Final

import pyarrow as pa

from penstock.state.segment import MappedSegment, MissingSegment, Segment, SegmentError

#: What may be wrong with a file that was written by nobody.
_DAMAGE: Final = (pa.ArrowException, struct.error, ValueError, KeyError, IndexError, OSError)
_HINT: Final = "restore a savepoint (penstock savepoint restore), or compute the view again (penstock batch)"


class OpenSegments:
    """Maps segments once. Of each owner only those of the last list stay mapped, so that removed files free space."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._mapped: dict[tuple[str, str], dict[Segment, MappedSegment]] = {}

    def of(self, root: str, owner: str, segments: Sequence[Segment]) -> list[MappedSegment]:
        """The segments, mapped; the newest first."""
        with self._lock:
            known = self._mapped.get((root, owner), {})
        mapped = {segment: known.get(segment) or opened(root, segment) for segment in segments}
        with self._lock:
            self._mapped[root, owner] = mapped
        return sorted(mapped.values(), key=lambda one: -one.segment.run)


#: Those of this process.
OPEN: Final = OpenSegments()


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
