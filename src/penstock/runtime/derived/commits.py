"""Which commits of streams are new to those that are made from them, and what they brought.

What a commit brought lies in the history; which files those are, and what time it was then, the store says. So an epoch
that comes again reads the same events at the same times.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import polars as pl
import pyarrow as pa

from penstock.errors import PenstockError
from penstock.history.events.event_history import EventHistory, HistoryPast
from penstock.model.stream import Stream
from penstock.model.types import Schema
from penstock.runtime.derived.commit_offsets import FILES, Offset
from penstock.runtime.derived.times import TIME, Time
from penstock.store.reader import Reader

#: The events of how many commits an epoch takes at most, and about how many events a part of it has.
COMMITS, PART = 2_000, 50_000
_ARROW: Final = pa.schema([("kind", pa.string()), ("data", pa.binary())])

#: What a task gets: a kind, and bytes.
Part = tuple[str, bytes]


class CommitReader:
    """Finds new commits, and their files; an epoch ends when it has `limit` events."""

    def __init__(self, folder: Path, name: str, streams: Mapping[str, Schema], limit: int) -> None:
        self._name, self._streams, self.limit = name, streams, limit
        self._store = Reader(folder)
        self._seen = -1  # the newest commit of all when there was nothing new
        self._latest: Offset | None = None

    def latest(self, start: Offset) -> Offset:
        """Up to where an epoch reads; where it starts, if nothing is new."""
        (newest,) = self._store.query("SELECT coalesce(max(number), 0) FROM __commits").row(0)
        if newest == self._seen:
            return start
        files = self._files(start["commit"])
        self._latest = {"commit": newest, "events": start["events"] + sum(rows for _, rows in files)}
        end, events = newest, 0
        for last, rows in files:
            events += rows
            if events >= self.limit:
                end = last
                break
        numbers = [time.commit for time in self.times(start["commit"], end)][:COMMITS]
        if not numbers:
            self._seen = newest
            return start
        return self.up_to(start, numbers[-1])

    def up_to(self, start: Offset, commit: int) -> Offset:
        """A later offset, by the number of its commit."""
        taken = sum(rows for last, rows in self._files(start["commit"]) if last <= commit)
        return {"commit": commit, "events": start["events"] + taken}

    @property
    def newest(self) -> Offset | None:
        """How far an epoch without a limit would read."""
        return self._latest

    def _files(self, after: int) -> list[tuple[int, int]]:
        """The files that commits after this one brought: the last one of each, and its rows.

        Of a file in which more commits were put together it is the share of those that were not read.
        """
        names = list(self._streams)
        places = ", ".join(f"?{number}" for number in range(2, len(names) + 2)) or "NULL"
        condition = f"removed IS NULL AND kind = 'events' AND last > ?1 AND stream IN ({places})"
        files = self._store.query(
            f"SELECT first, last, rows FROM __files WHERE {condition} ORDER BY last", [after, *names]
        )
        return [
            (last, rows if first > after else rows * (last - after) // (last - first + 1))
            for first, last, rows in files.iter_rows()
        ]

    def times(self, after: int, through: int) -> list[Time]:
        """The commits of the streams, and those in which only time passed for their readers."""
        epochs = self._store.times_of(self._name, self._streams, after, through)
        ticks = self._store.ticks_of(self._name, after, through)
        return [Time(*row) for row in pl.concat([epochs, ticks]).sort("commit").iter_rows()]

    def parts(self, start: Offset, end: Offset) -> list[Part]:
        """What an epoch reads: its times first, and then files."""
        times = self.times(start["commit"], end["commit"])
        parts = [(TIME, json.dumps([asdict(time) for time in times]).encode())]
        history = EventHistory(self._store)
        for name, schema in self._streams.items():
            since = history.since(name)
            if 0 < start["commit"] < (since or 0):
                raise PenstockError(
                    f"events of '{name}' that '{self._name}' has not read yet are gone from the history",
                    detail=f"it has read up to commit {start['commit']}, and the history begins after commit {since}",
                    hint=f"restore a savepoint, or give '{self._name}' another name: it then begins with what there is",
                )
            past = history.past(Stream(name, schema), end["commit"], start["commit"])
            parts += [(FILES, pickle.dumps(piece)) for piece in _pieces(past)]
        return parts

    def close(self) -> None:
        self._store.close()


def arrow_of(parts: Sequence[Part]) -> pa.Table:
    """Parts as Spark's tasks get them."""
    kinds, data = [kind for kind, _ in parts], [data for _, data in parts]
    return pa.table([pa.array(kinds, pa.string()), pa.array(data, pa.binary())], schema=_ARROW)


def _pieces(past: HistoryPast) -> Iterator[HistoryPast]:
    """The files in pieces, each with enough rows for one task."""
    files, rows = [], 0
    for file in past.files:
        files.append(file)
        rows += file.rows
        if rows >= PART:
            yield _of(past, files)
            files, rows = [], 0
    if files:
        yield _of(past, files)


def _of(past: HistoryPast, files: list[Any]) -> HistoryPast:
    return HistoryPast(past.stream, past.place, tuple(files), past.tombstones, past.after, past.through)


def past_of(data: bytes) -> HistoryPast:
    """What a row of the kind 'files' stands for."""
    past = pickle.loads(data)
    assert isinstance(past, HistoryPast)
    return past
