"""Write ids: each attempt of an epoch to write files has one, and the names of its files begin with it.

An epoch writes its files before its commit has a number. Files that no commit lists are removed periodically, except
those of attempts that are still running.

>>> write_id(7, "3f2a-11", 42, attempt="a9")
'7-3f2a11-42-a9'
"""

from __future__ import annotations

import re
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, TypeAlias

#: The writer's token, the query, the epoch and the attempt. No file name has a dot before its end.
WriteId: TypeAlias = str

_OURS: Final = re.compile(r"\d+-")
_OTHERS: Final = re.compile(r"[^0-9A-Za-z]+")


def write_id(token: int, query: str, epoch: int, attempt: str | None = None) -> WriteId:
    """The id of an attempt to write what an epoch of a query brings."""
    return f"{token}-{_OTHERS.sub('', query)[:32]}-{epoch}-{attempt or uuid.uuid4().hex[:8]}"


def is_ours(path: str) -> bool:
    """Whether a file has a name that an epoch or compaction gives."""
    return _OURS.match(path.rpartition("/")[2]) is not None


def write_id_of(path: str) -> WriteId:
    """The id that a file was written under. What compaction and earlier versions wrote has none that is in flight."""
    return path.rpartition("/")[2].partition(".")[0]


class WritesInFlight:
    """The write ids of attempts that are running. Safe for several threads."""

    def __init__(self) -> None:
        self._ids: set[WriteId] = set()
        self._mutex = threading.Lock()

    @contextmanager
    def running(self, id: WriteId) -> Iterator[None]:
        """An attempt runs: until its files are listed, or it has failed."""
        with self._mutex:
            self._ids.add(id)
        try:
            yield
        finally:
            with self._mutex:
                self._ids.discard(id)

    def ids(self) -> frozenset[WriteId]:
        """Those that are running now."""
        with self._mutex:
            return frozenset(self._ids)
