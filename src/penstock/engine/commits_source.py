"""The commits of streams, as a stream that Spark reads: an offset is the number of a commit.

What a commit brought lies in the master; which files those are, and what time it was then, the store says. So an epoch
that comes again reads the same events at the same times. A task gets names of files and reads them itself; what is done
with them first (`through`) it does there and then, so that rows need not go from one Python process to another.
"""

from __future__ import annotations

import json
import pickle
from base64 import b64decode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from penstock.engine.times import TIME, Time
from penstock.errors import PenstockError
from penstock.lake.master import Master, MasterPast
from penstock.model.stream import Stream
from penstock.model.time import BEGINNING, Instant
from penstock.model.types import Schema
from penstock.store.reader import Reader
from penstock.store.tables import marks

#: An epoch takes the events of so many commits at most; a part of it about so many events.
COMMITS, PART = 2_000, 50_000
#: What a row stands for: files to read, or what time it was (`times`).
FILES: Final = "files"
SCHEMA: Final = "kind string, data binary"
_ARROW: Final = pa.schema([("kind", pa.string()), ("data", pa.binary())])

Offset = dict[str, int]


class Commits(DataSource):
    """The commits of the streams in the store that the options name."""

    @classmethod
    def name(cls) -> str:
        return "penstock_commits"

    def schema(self) -> str:
        return str(self.options.get("schema", SCHEMA))

    def streamReader(self, schema: object) -> DataSourceStreamReader:
        return CommitReader(**self.told)

    @property
    def told(self) -> dict[str, Any]:
        """What a reader is told."""
        streams = {name: Schema.parse(ddl) for name, ddl in json.loads(self.options["streams"]).items()}
        return {
            "folder": Path(self.options["folder"]), "name": self.options["name"], "streams": streams,
            "limit": int(self.options["limit"]), "through": self.options.get("through"),
        }  # fmt: skip


@dataclass
class Part(InputPartition):
    """One row: its kind, and its bytes."""

    kind: str
    data: bytes


class CommitReader(DataSourceStreamReader):
    """Tells which commits are new, and hands out what they brought."""

    def __init__(
        self, folder: Path, name: str, streams: Mapping[str, Schema], limit: int, through: str | None = None
    ) -> None:
        self._folder, self._name, self._streams, self._limit = folder, name, streams, limit
        self._through = through
        self._key = ",".join(sorted(streams))
        self._store: Reader | None = None
        self._seen = -1  # the newest commit of all when there was nothing new
        self._latest: Offset | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_store": None}

    @property
    def store(self) -> Reader:
        if self._store is None:
            self._store = Reader(self._folder)
        return self._store

    def initialOffset(self) -> Offset:
        return {"commit": 0, "events": 0}

    def latestOffset(self, start: Offset, limit: object) -> Offset:
        (newest,) = self.store.query("SELECT coalesce(max(number), 0) FROM __commits").row(0)
        if newest == self._seen:
            return start
        files = self._files(start["commit"])
        self._latest = {"commit": newest, "events": start["events"] + sum(rows for _, rows in files)}
        end, events = newest, 0
        for last, rows in files:
            events += rows
            if events >= self._limit:
                end = last
                break
        found = [time.commit for time in self.times(start["commit"], end)][:COMMITS]
        if not found:
            self._seen = newest
            return start
        taken = sum(rows for last, rows in files if last <= found[-1])
        return {"commit": found[-1], "events": start["events"] + taken}

    def reportLatestOffset(self) -> Offset | None:
        """How far an epoch without a limit would read."""
        return self._latest

    def _files(self, after: int) -> list[tuple[int, int]]:
        """The files that commits after this one brought: the last one of each, and its rows.

        Of a file in which more commits were put together it is the share of those that were not read.
        """
        names = list(self._streams)
        places = ", ".join(f"?{number}" for number in range(2, len(names) + 2)) or "NULL"
        told = f"removed IS NULL AND kind = 'events' AND last > ?1 AND stream IN ({places})"
        found = self.store.query(f"SELECT first, last, rows FROM __files WHERE {told} ORDER BY last", [after, *names])
        return [
            (last, rows if first > after else rows * (last - after) // (last - first + 1))
            for first, last, rows in found.iter_rows()
        ]

    def times(self, after: int, through: int) -> list[Time]:
        """The commits of the streams, and those in which only time passed for whoever reads them."""
        names = list(self._streams)
        among = marks(len(names)) or "NULL"
        epochs = self.store.query(
            'SELECT "commit", now, before, after FROM __marks '
            f'WHERE "commit" > ?{len(names) + 1} AND "commit" <= ?{len(names) + 2} AND stream IN ({among})',
            [*names, after, through],
        )
        ticks = self.store.query(
            "SELECT number, now, timings FROM __commits "
            "WHERE number > ?1 AND number <= ?2 AND kind = 'tick' AND timings LIKE ?3",
            [after, through, f'%"{self._name}"%'],
        )
        found = [
            Time(number, now, self._mark(was), self._mark(now_is)) for number, now, was, now_is in epochs.iter_rows()
        ]
        for number, now, timings in ticks.iter_rows():
            mark = json.loads(timings).get("times", {}).get(self._name)
            found += [Time(number, now, mark, mark)] if mark is not None else []
        return sorted(found, key=lambda time: time.commit)

    def _mark(self, text: str) -> Instant:
        told = json.loads(text)
        return int(told.get(f"view:{self._name}", told.get(self._key, BEGINNING)))

    def partitions(self, start: Offset, end: Offset) -> Sequence[Part]:
        times = self.times(start["commit"], end["commit"])
        parts = [Part(TIME, json.dumps([asdict(time) for time in times]).encode())]
        master = Master(self.store)
        for name, schema in self._streams.items():
            since = master.since(name)
            if 0 < start["commit"] < (since or 0):
                raise PenstockError(
                    f"events of «{name}» that «{self._name}» has not read yet are gone from the master",
                    detail=f"it has read up to commit {start['commit']}, and the master begins after commit {since}",
                    hint=f"restore a savepoint, or give «{self._name}» another name: it then begins with what there is",
                )
            past = master.past(Stream(name, schema), end["commit"], start["commit"])
            parts += [Part(FILES, pickle.dumps(piece)) for piece in _pieces(past)]
        return parts

    def close(self) -> None:
        if self._store is not None:
            self._store.close()
            self._store = None

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        (batch,) = arrow_of([(partition.kind, partition.data)]).to_batches()
        if self._through is None:
            yield batch
        else:
            yield from pickle.loads(b64decode(self._through))(iter([batch]))


def arrow_of(parts: Sequence[tuple[str, bytes]]) -> pa.Table:
    """Parts as Spark's tasks get them."""
    kinds, data = [kind for kind, _ in parts], [data for _, data in parts]
    return pa.table([pa.array(kinds, pa.string()), pa.array(data, pa.binary())], schema=_ARROW)


def _pieces(past: MasterPast) -> Iterator[MasterPast]:
    """The files, so many at a time that each piece has enough to do."""
    files, rows = [], 0
    for file in past.files:
        files.append(file)
        rows += file.rows
        if rows >= PART:
            yield _of(past, files)
            files, rows = [], 0
    if files:
        yield _of(past, files)


def _of(past: MasterPast, files: list[Any]) -> MasterPast:
    return MasterPast(past.stream, past.place, tuple(files), past.tombstones, past.after, past.through)


def past_of(data: bytes) -> MasterPast:
    """What a row of the kind «files» stands for."""
    found = pickle.loads(data)
    assert isinstance(found, MasterPast)
    return found
