"""The history: every event that a stream has accepted, by epoch, in immutable Parquet files.

The store lists its files, with the commits that brought them. Rows have the stream's columns, `__at` (their
event time in microseconds) and their place in the log; in files of several commits also `__commit`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final

import polars as pl
import pyarrow as pa

from penstock.errors import unknown
from penstock.history.events.columns import COMMIT, OWN, arrow_schema
from penstock.history.events.erase import without_erased
from penstock.history.events.past import Past
from penstock.history.events.place import LakeError, Place
from penstock.history.events.read import read_files
from penstock.history.events.writer import Keeping
from penstock.history.events.writes import WritesInFlight, write_id
from penstock.model.expressions import bind
from penstock.model.stream import Stream
from penstock.model.time import Instant
from penstock.store.base import Store
from penstock.store.file import File, Listing, Tombstone
from penstock.store.reader import Reader

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: The folder of the history in directories of earlier versions, and in their savepoints.
BEFORE: Final = "master"


@dataclass(frozen=True)
class HistoryPast(Past):
    """Rows of the history: those that commits above `after` up to `through` brought, with event times in a range."""

    stream: Stream
    place: Place
    files: tuple[File, ...]
    tombstones: tuple[Tombstone, ...]
    after: int
    through: int
    start: Instant | None = None
    end: Instant | None = None

    accepted = True

    @property
    def rows(self) -> int | None:  # type: ignore[override]
        """How many rows there are, where all rows of its files are of this past."""
        whole = all(self.after < file.first and file.last <= self.through for file in self.files)
        timed = self.start is not None or self.end is not None
        return None if timed or self.tombstones or not whole else sum(file.rows for file in self.files)

    def frame(self, spark: SparkSession, columns: Sequence[str]) -> DataFrame:
        """These columns, the places, `__commit` and `__at`. What was erased is not among the rows."""
        from pyspark.sql import functions as f

        read = dict.fromkeys(self.stream.schema.find(name) for name in columns)
        for tombstone in self.tombstones:
            read |= dict.fromkeys(bind(tombstone.condition, self.stream.schema).columns)
        types = {**{name: self.stream.schema.type_of(name) for name in read}, **OWN}
        if not self.files:
            empty = ", ".join(f"`{name}` {kind}" for name, kind in types.items())
            return spark.createDataFrame([], empty).select(*columns, *OWN)
        rows, at = self._scan(spark, types), f.col("__at")
        rows = rows if self.start is None else rows.where(at >= self.start)
        rows = rows if self.end is None else rows.where(at < self.end)
        for tombstone in self.tombstones:
            gone = f.expr(f"__commit <= {tombstone.commit} AND coalesce(({tombstone.condition}), false)")
            rows = rows.where(~gone)
        return rows.select(*(f"`{name}`" for name in columns), *OWN)

    def _scan(self, spark: SparkSession, types: Mapping[str, str]) -> DataFrame:
        """These columns of all files. Rows of files that hold one commit get its number by the name of their file."""
        from pyspark.sql import functions as f

        def parquet(files: Sequence[File], columns: Iterable[str]) -> DataFrame:
            schema = ", ".join(f"`{name}` {types[name]}" for name in columns)
            return spark.read.schema(schema).parquet(*(self.place.for_spark(file.path) for file in files))

        parts: list[DataFrame] = []
        if several := [file for file in self.files if file.commit is None]:
            commit = f.col(COMMIT)
            parts.append(parquet(several, types).where((commit > self.after) & (commit <= self.through)))
        if single := [file for file in self.files if file.commit is not None]:
            names = [file.path.rpartition("/")[2] for file in single]
            known = pa.table({"__file": names, COMMIT: pa.array([file.commit for file in single], pa.int64())})
            rows = parquet(single, [name for name in types if name != COMMIT])
            rows = rows.withColumn("__file", f.col("_metadata.file_name"))
            rows = rows.join(f.broadcast(spark.createDataFrame(known)), "__file", "left")
            parts.append(rows.select(*(f"`{name}`" for name in types)))
        return parts[0] if len(parts) == 1 else parts[0].unionByName(parts[1])

    def read(self) -> pl.DataFrame:
        """The same rows with all columns, without Spark: as many as fit into memory."""
        rows = read_files(self.place, self.files, arrow_schema(self.stream.schema))
        commit, at = pl.col("__commit"), pl.col("__at")
        rows = rows.filter((commit > self.after) & (commit <= self.through))
        rows = rows if self.start is None else rows.filter(at >= self.start)
        rows = rows if self.end is None else rows.filter(at < self.end)
        return without_erased(rows, self.tombstones, self.stream.schema)


class EventHistory:
    """The history of one app. `location` is a directory or a URL; without one the store says where it lies."""

    def __init__(self, store: Reader, location: str | None = None) -> None:
        self.store = store
        self.location = location if location is not None else store.listing().location
        self.place = Place(self.location if self.location is not None else str(default_location(store.directory)))
        self.writes = WritesInFlight()
        #: Up to which commit a stream was read by those that are made from it: what comes after stays.
        self.read_through: Callable[[str], int | None] = lambda stream: None

    # written by epochs

    def keep(self, streams: Mapping[str, Stream]) -> None:
        """From here on keeps of these streams what they say; the store must be ours to write."""
        assert isinstance(self.store, Store)
        settings = {name: (stream.kept, stream.schema.ddl()) for name, stream in streams.items()}
        self.store.keep_history(settings, self.location)

    @contextmanager
    def keeping(self, stream: Stream, query: str, epoch: int) -> Iterator[Keeping | None]:
        """What the tasks of an epoch need to keep its events; None where the stream is not kept.

        Until this ends, the epoch's files are spared though no commit lists them.
        """
        if stream.kept == "none":
            yield None
            return
        assert isinstance(self.store, Store)
        id = write_id(self.store.token, query, epoch)
        with self.writes.running(id):
            yield Keeping(self.place.location, self.home, stream.name, stream.schema, epoch, id)

    @cached_property
    def home(self) -> str:
        """The folder of the files that this store writes."""
        home = self.store.listing().home
        if home is None:
            raise LakeError("this store has no history yet", hint="run the app once with this version of Penstock")
        return home

    # read

    def since(self, stream: Stream | str) -> int | None:
        """The commit after which the history holds every event of a stream, 0 if from the first; None if it holds none.

        It moves when old files go by `keep`.
        """
        name = stream if isinstance(stream, str) else stream.name
        kept_stream = self.store.listing().streams.get(name)
        return None if kept_stream is None else kept_stream.since

    def has(self, stream: Stream | str) -> bool:
        """Whether the history holds every event of a stream, from the first one on."""
        return self.since(stream) == 0

    def past(
        self,
        stream: Stream,
        through: int | None = None,
        after: int = 0,
        *,
        start: Instant | None = None,
        end: Instant | None = None,
    ) -> HistoryPast:
        """The rows that commits above `after` up to `through` brought (None: up to now).

        `start` and `end` bound their event times, the end being outside. Only files that may hold such rows are read.
        """
        listing = self.store.listing()
        if stream.name not in listing.streams:
            raise unknown("stream of the history", stream.name, listing.streams)
        last = listing.last if through is None else min(through, listing.last)
        files = tuple(
            file
            for file in listing.of(stream.name)
            if file.first <= last and file.last > after and _may_hold(file, start, end)
        )
        return HistoryPast(stream, self.place, files, _applying(listing, stream.name, files), after, last, start, end)


def default_location(directory: Path) -> Path:
    """The default location of the history. In a directory of an earlier version it stays in `master`."""
    before = directory / BEFORE
    return before if before.exists() else directory / "history"


def _may_hold(file: File, start: Instant | None, end: Instant | None) -> bool:
    if file.oldest is None or file.newest is None:
        return True
    return (start is None or file.newest >= start) and (end is None or file.oldest < end)


def _applying(listing: Listing, stream: str, files: Sequence[File]) -> tuple[Tombstone, ...]:
    """The tombstones that some of these files still need."""
    tombstones = (tombstone for tombstone in listing.tombstones if tombstone.stream == stream)
    return tuple(t for t in tombstones if any(file.erased < t.id and file.first <= t.commit for file in files))


__all__ = ["BEFORE", "EventHistory", "HistoryPast", "LakeError", "default_location"]
