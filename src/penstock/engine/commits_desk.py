"""Where the driver tells Spark's own processes which commits are new: one desk a process, for all of its runs.

A query that reads the commits several times, as a join does for its sides, has several sources. The first one says up
to where an epoch reads, and the others follow it: so all of them see the same commits. One that finds nothing new is
answered when something is committed, or after a moment.
"""

from __future__ import annotations

import json
import pickle
import threading
import time
from typing import Any, Final

from penstock.engine.commits import CommitReader
from penstock.engine.commits_source import Offset
from penstock.engine.retry import AWAY
from penstock.engine.rpc import Address, RpcServer
from penstock.store.connection import Busy, Full

#: So many seconds an answer waits for something new.
_MOMENT: Final = 0.05


class Desk:
    """Readers of commits by key: the folder of a run, a stream that is made from others, and the source's number."""

    def __init__(self) -> None:
        self._readers: dict[tuple[str, str, int], CommitReader] = {}
        self._ends: dict[tuple[str, str], int] = {}  # up to where the first source of a query has said to read
        self._changed = threading.Condition()
        self._commits = 0
        self._answering: RpcServer | None = None

    def open(self, folder: str, name: str, source: int, reader: CommitReader) -> tuple[Address, str]:
        """From here on answers what is asked about these commits; where, and under which key."""
        with self._changed:
            if self._answering is None:
                self._answering = RpcServer(self._answer, "commits")
            before = self._readers.get((folder, name, source))
            self._readers[folder, name, source] = reader
            if source == 0:
                self._ends.pop((folder, name), None)
        if before is not None:
            before.close()
        return self._answering.address, json.dumps([folder, name, source])

    def adjust(self, folder: str, name: str, limit: int) -> bool:
        """From the next epoch on it takes so many events; whether anybody reads them. The first source cuts."""
        first = self._readers.get((folder, name, 0))
        if first is not None:
            first.limit = limit
        return first is not None

    def close(self, folder: str) -> None:
        """A run has ended."""
        with self._changed:
            mine = [key for key in self._readers if key[0] == folder]
            readers = [self._readers.pop(key) for key in mine]
            for key in mine:
                self._ends.pop(key[:2], None)
            self._commits += 1
            self._changed.notify_all()
        for reader in readers:
            reader.close()

    def committed(self) -> None:
        """Something is new."""
        with self._changed:
            self._commits += 1
            self._changed.notify_all()

    def _answer(self, question: bytes) -> bytes:
        try:
            key, what, about = json.loads(question)
            folder, name, source = json.loads(key)
            return pickle.dumps((self._said((folder, name, source), what, about), None))
        except (Busy, Full) as error:
            return pickle.dumps((None, f"{AWAY}: {error}"))
        except Exception as error:
            return pickle.dumps((None, str(error)))

    def _said(self, key: tuple[str, str, int], what: str, about: Any) -> Any:
        reader = self._readers.get(key)
        if what == "latest":
            (start,) = about
            if reader is None:  # the run is ending
                return start
            return self._first(key, reader, start) if key[2] == 0 else self._following(key, reader, start)
        if reader is None:
            raise LookupError(f"the run with the stream «{key[1]}» has ended")
        return reader.newest if what == "newest" else reader.parts(*about)

    def _first(self, key: tuple[str, str, int], reader: CommitReader, start: Offset) -> Offset:
        until = time.monotonic() + _MOMENT
        while True:
            known = self._commits
            end = reader.latest(start)
            if end != start:
                self._ends[key[:2]] = end["commit"]
                return end
            if not self._wait(known, until) or key not in self._readers:
                return start

    def _wait(self, known: int, until: float) -> bool:
        """Whether something was committed after so many commits; until then it waits."""
        with self._changed:
            return self._changed.wait_for(lambda: self._commits != known, until - time.monotonic())

    def _following(self, key: tuple[str, str, int], reader: CommitReader, start: Offset) -> Offset:
        end = self._ends.get(key[:2], 0)
        return reader.up_to(start, end) if end > start["commit"] else start


#: The desk of this process.
DESK: Final = Desk()
