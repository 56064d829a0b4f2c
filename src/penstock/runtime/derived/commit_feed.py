"""Reports new commits of a run to Spark's own processes. Every run has one feed.

A query that reads the commits several times, as a join does for its sides, has several sources. The first one says up
to where an epoch reads, and the others follow it: so all of them see the same commits. One that finds nothing new is
answered when something is committed, or after a moment.
"""

from __future__ import annotations

import json
import pickle
import threading
import time
from typing import Any

from penstock.runtime.derived.commit_offsets import Offset
from penstock.runtime.derived.commits import CommitReader
from penstock.runtime.queries.retry import AWAY
from penstock.runtime.rpc import Address, RpcServer
from penstock.store.connection import Busy, Full


class CommitFeed:
    """Readers of commits by derived stream and number of the source. `moment`: how many seconds an answer may wait."""

    def __init__(self, moment: float = 0.05) -> None:
        self._moment = moment
        self._readers: dict[tuple[str, int], CommitReader] = {}
        self._ends: dict[str, int] = {}  # up to where the first source of a query decided to read
        self._changed = threading.Condition()
        self._commits = 0
        self._server: RpcServer | None = None

    def open(self, name: str, source: int, reader: CommitReader) -> tuple[Address, str]:
        """From here on answers questions about these commits; where, and under which key."""
        with self._changed:
            if self._server is None:
                self._server = RpcServer(self._answer, "commits")
            before = self._readers.get((name, source))
            self._readers[name, source] = reader
            if source == 0:
                self._ends.pop(name, None)
        if before is not None:
            before.close()
        return self._server.address, json.dumps([name, source])

    def adjust(self, name: str, limit: int) -> None:
        """Sets how many events an epoch takes, from the next one on, if anything reads them. The first source cuts."""
        first = self._readers.get((name, 0))
        if first is not None:
            first.limit = limit

    def close(self) -> None:
        """The run has ended."""
        with self._changed:
            readers, self._readers = list(self._readers.values()), {}
            server, self._server = self._server, None
            self._commits += 1
            self._changed.notify_all()
        for reader in readers:
            reader.close()
        if server is not None:
            server.close()

    def committed(self) -> None:
        """Something is new."""
        with self._changed:
            self._commits += 1
            self._changed.notify_all()

    def _answer(self, question: bytes) -> bytes:
        try:
            key, what, about = json.loads(question)
            name, source = json.loads(key)
            return pickle.dumps((self._reply((name, source), what, about), None))
        except (Busy, Full) as error:
            return pickle.dumps((None, f"{AWAY}: {error}"))
        except Exception as error:
            return pickle.dumps((None, str(error)))

    def _reply(self, key: tuple[str, int], what: str, about: Any) -> Any:
        reader = self._readers.get(key)
        if what == "latest":
            (start,) = about
            if reader is None:  # the run is ending
                return start
            return self._first(key, reader, start) if key[1] == 0 else self._following(key, reader, start)
        if reader is None:
            raise LookupError(f"the run with the stream '{key[0]}' has ended")
        return reader.newest if what == "newest" else reader.parts(*about)

    def _first(self, key: tuple[str, int], reader: CommitReader, start: Offset) -> Offset:
        until = time.monotonic() + self._moment
        while True:
            commits = self._commits
            end = reader.latest(start)
            if end != start:
                self._ends[key[0]] = end["commit"]
                return end
            if not self._wait(commits, until) or key not in self._readers:
                return start

    def _wait(self, commits: int, until: float) -> bool:
        """Waits until there are more commits than `commits`; whether there are."""
        with self._changed:
            return self._changed.wait_for(lambda: self._commits != commits, until - time.monotonic())

    def _following(self, key: tuple[str, int], reader: CommitReader, start: Offset) -> Offset:
        end = self._ends.get(key[0], 0)
        return reader.up_to(start, end) if end > start["commit"] else start
