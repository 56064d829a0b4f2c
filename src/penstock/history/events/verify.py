"""Looks whether the history is what the store says of it: every file there, byte for byte, row for row."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.errors import unknown
from penstock.history.events.event_history import EventHistory
from penstock.history.events.place import Place
from penstock.store.file import File


@dataclass(frozen=True)
class Problem:
    """A file that is not what the store says of it."""

    file: File
    message: str


def verify(
    history: EventHistory, stream: str | None = None, on_progress: Callable[[int], None] | None = None
) -> Iterator[Problem]:
    """The files that are missing, damaged, or differ from the list. `on_progress` gets the size of each piece read."""
    listing = history.store.listing()
    if stream is not None and stream not in listing.streams:
        raise unknown("stream of the history", stream, listing.streams)
    for file in listing.files:
        if stream in (None, file.stream):
            message = _problem(history.place, file, on_progress or (lambda count: None))
            if message is not None and _is_listed(history, file):
                yield Problem(file, message)


def to_verify(history: EventHistory, stream: str | None = None) -> tuple[int, int]:
    """How many files and bytes a verification reads."""
    files = [file for file in history.store.listing().files if stream in (None, file.stream)]
    return len(files), sum(file.bytes for file in files)


def _is_listed(history: EventHistory, file: File) -> bool:
    """Whether a file is still part of the history: it may have been compacted while we looked."""
    return any(one.path == file.path for one in history.store.listing().files)


def _problem(place: Place, file: File, on_progress: Callable[[int], None]) -> str | None:
    size = place.size(file.path)
    if size is None:
        return "it is missing"
    if size != file.bytes:
        return f"it has {size:,} bytes, and had {file.bytes:,} when it was written"
    checksum = ""
    for part in place.checksum(file.path):
        if isinstance(part, int):
            on_progress(part)
        else:
            checksum = part
    if checksum != file.checksum:
        return f"its checksum is {checksum[:12]}…, and was {file.checksum[:12]}… when it was written"
    return _rows(place, file)


def _rows(place: Place, file: File) -> str | None:
    try:
        with place.open(file.path) as opened:
            rows = pq.read_metadata(opened).num_rows
    except (pa.ArrowException, OSError) as error:
        return f"it cannot be read: {error}"
    return None if rows == file.rows else f"it has {rows:,} rows, and {file.rows:,} are listed"
