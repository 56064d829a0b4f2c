"""Streams that are made from other streams by jobs of their own: loops, topologies and models. Each has a query.

Such a query reads what the other streams have accepted, commit by commit, from the history: neither malformed rows nor
duplicates are among it, and each commit comes with the time that it had. What the operator gives is a stream like any
other, with a history of its own.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self, TypeAlias

import polars as pl
import pyarrow as pa

from penstock.dataflow.operators import operator_of, read_by
from penstock.errors import DefinitionError
from penstock.model.stream import Stream
from penstock.model.time import BEGINNING, END, Instant
from penstock.model.types import Schema
from penstock.model.watermarks import Tracker, ViewTime
from penstock.runtime.errors import RunError
from penstock.sources import Follower, Source
from penstock.sources.base import Folder
from penstock.store import Store
from penstock.store.marks import ReaderTime
from penstock.store.memory import REMEMBERED

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from penstock.runtime.derived.commit_feed import CommitFeed
    from penstock.runtime.derived.commits import CommitReader
    from penstock.runtime.epoch.origin import EpochOrigin

#: About how many events an epoch takes by default.
EVENTS: Final = 500_000
#: When something is due next: by the watermark, and by the clock.
Due: TypeAlias = tuple[Instant, Instant]
NEVER: Final = (END, END)
#: The rows of an epoch: as Spark has them, or here already.
Rows: TypeAlias = "DataFrame | pa.Table"


@dataclass(frozen=True, repr=False)
class Derived(Source):
    """The source of a stream that is made from others.

    Spark cuts its epochs. What they bring is read on the driver, so that no task is started to read it. What they
    remember is in the store. In a run it has the `name` of its stream, and the `folder` of the run's store; `feed`
    tells Spark's processes which commits are new. `limit` is how many events an epoch takes.
    """

    adjusts: ClassVar[bool] = True

    name: str = field(default="", kw_only=True)
    folder: str | None = field(default=None, kw_only=True)
    limit: int = field(default=EVENTS, kw_only=True)
    feed: CommitFeed | None = field(default=None, compare=False, kw_only=True)

    @property
    @abstractmethod
    def inputs(self) -> tuple[Stream, ...]:
        """The streams that it reads."""

    def placed(self, directory: Path, stream: str, schema: Schema) -> Self:
        return replace(self, folder=str(directory.absolute()), name=stream)

    def limited(self, limit: int) -> Self:
        return replace(self, limit=limit)

    def fed_by(self, feed: CommitFeed) -> Self:
        """The same in a run whose commits this feed tells of."""
        return replace(self, feed=feed)

    def commits(self, spark: SparkSession, name: str, reader: CommitReader | None = None) -> DataFrame:
        """The commits of the streams that it reads: their files, and their times. The session is the query's."""
        from penstock.runtime.derived.commits_source import Commits, options

        spark.dataSource.register(Commits)
        assert self.feed is not None
        more = options(*self.feed.open(name, 0, reader or self.reader(name)))
        return spark.readStream.format(Commits.name()).options(**more).load()

    def reader_arguments(self, name: str) -> tuple[Path, str, dict[str, Schema], int]:
        """The arguments of `CommitReader`: the directory, the stream's name, schemas of its inputs, and a limit."""
        if self.folder is None:
            raise DefinitionError(f"{self!r} is read by a running app only", hint="run it: app.run(directory)")
        return Path(self.folder), name, {stream.name: stream.schema for stream in self.inputs}, self.limit

    def reader(self, name: str) -> CommitReader:
        """Reads the commits, here on the driver."""
        from penstock.runtime.derived.commits import CommitReader

        return CommitReader(*self.reader_arguments(name))

    @abstractmethod
    def step(self, epoch_input: EpochInput, memory: Memory, now: Instant) -> AbstractContextManager[Step]:
        """Runs an epoch on the commits that it reads. It may run again, if it is not committed."""

    def epoch_input(self, spark: SparkSession, name: str, before: str | None, offsets: str) -> EpochInput:
        """What an epoch reads: from where the one before it ended up to its own end."""
        with closing(self.reader(name)) as reader:
            return EpochInput(spark, tuple(reader.parts(*between(before, offsets))))

    @property
    def unit(self) -> str | None:
        return "events"

    def adjust(self, limit: int) -> None:
        """The driver, which reads the commits, says how much an epoch takes."""
        if self.feed is not None:
            self.feed.adjust(self.name, limit)

    def behind(self, offsets: str, latest: Any) -> int | None:
        return max(0, latest["events"] - json.loads(offsets)["events"]) if isinstance(latest, dict) else None

    def follow(self, checkpoint: Folder) -> Follower:
        return _Follower()


class _Follower(Follower):
    """How many events an epoch takes."""

    def __init__(self) -> None:
        self._before: int | None = None

    def reading(self, offsets: str) -> None:
        events = int(json.loads(offsets)["events"])
        self.epoch_size = None if self._before is None else events - self._before
        self._before = events


def derived(stream: Stream) -> Derived | None:
    """The log of a stream that is made from others; None for one that has a log of its own."""
    return stream.log if isinstance(stream.log, Derived) else None


def made_from(stream: Stream) -> tuple[Stream, ...]:
    """The streams that a stream is made from, by an operator or by a query of its own; none for one with a source."""
    operator, log = operator_of(stream), derived(stream)
    if operator is not None:
        return read_by(operator)
    return () if log is None else log.inputs


@dataclass(frozen=True)
class Step:
    """The result of an epoch of a stream that is made from others.

    Its rows; when something is due after it; what it remembers from here on (`store.memory`), committed with it; what
    it counts, and what its commit tells people. `inputs` is how many events of other streams it has read.
    """

    rows: Rows
    due: Due | None = NEVER
    memory: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=REMEMBERED))
    counters: Mapping[str, int] = field(default_factory=dict)
    notes: Mapping[str, Any] = field(default_factory=dict)
    inputs: int | None = None


@dataclass(frozen=True)
class Memory:
    """What a stream remembers of its epochs so far."""

    store: Store
    stream: str

    def of(self, part: str, keys: Iterable[bytes]) -> dict[bytes, bytes]:
        """The values of these keys of a part, where they have some."""
        asked = pl.DataFrame({"part": part, "key": list(keys)}, schema={"part": pl.String, "key": pl.Binary})
        entries = self.store.memory(self.stream, asked) if asked.height else asked
        return dict(zip(entries["key"], entries["value"], strict=True)) if entries.height else {}

    def all(self, part: str | None = None) -> pl.DataFrame:
        """All that is remembered, of a part or of all: `part`, `key`, `value`."""
        return self.store.memory(self.stream, part=part)


@dataclass(frozen=True)
class EpochInput:
    """The input of an epoch from the commits that it reads: names of files, and times, as `commits` has them."""

    spark: SparkSession
    parts: tuple[tuple[str, bytes], ...]

    @property
    def frame(self) -> DataFrame:
        """The same for Spark's tasks to read."""
        from penstock.runtime.derived.commits import arrow_of

        return self.spark.createDataFrame(arrow_of(self.parts))


def between(before: str | None, offsets: str) -> tuple[dict[str, int], dict[str, int]]:
    """From where and up to where an epoch reads; where its query reads commits several times, all are alike."""
    from penstock.runtime.derived.commit_offsets import BEGIN

    start = dict(BEGIN) if before is None else json.loads(before.splitlines()[0])
    return start, json.loads(offsets.splitlines()[0])


@contextmanager
def stepped(name: str, log: Source, rows: DataFrame, source: EpochOrigin, store: Store, now: Instant) -> Iterator[Step]:
    """An epoch's rows, and what else its commit writes."""
    if not isinstance(log, Derived):
        yield Step(rows)
        return
    epoch_input = log.epoch_input(rows.sparkSession, name, source.before, source.offsets)
    with log.step(epoch_input, Memory(store, name), now) as step:
        yield replace(step, inputs=_inputs(source))


def read_through(offsets: str) -> int:
    """Up to which commit of its inputs an epoch of a derived stream has read."""
    return min(int(json.loads(line)["commit"]) for line in offsets.splitlines())


def _inputs(source: EpochOrigin) -> int:
    """How many events an epoch of a stream that is made from others has read."""
    start, end = between(source.before, source.offsets)
    return end["events"] - start["events"]


def check_inputs(streams: Mapping[str, Stream]) -> None:
    """Refuses a stream made from one that the app does not have, or whose events the history does not keep."""
    for name, stream in streams.items():
        for source in made_from(stream):
            if streams.get(source.name) != source:
                raise DefinitionError(
                    f"the stream '{name}' is made from '{source.name}', which is not this app's",
                    hint="make it with app.stream(…)",
                )
            if source.kept == "none" and derived(stream) is not None:
                raise DefinitionError(
                    f"the stream '{name}' is made from '{source.name}', of which the history keeps nothing",
                    hint=f"set keep='all' or keep='7 days' for '{source.name}'",
                )


def in_stages(streams: Mapping[str, Stream]) -> list[list[str]]:
    """The names of streams, each in a later stage than those that it is made from."""
    stage: dict[str, int] = {}

    def place(stream: Stream) -> int:
        if stream.name not in stage:
            stage[stream.name] = 1 + max((place(one) for one in made_from(stream)), default=-1)
        return stage[stream.name]

    for stream in streams.values():
        place(stream)
    return [[name for name in streams if stage[name] == number] for number in sorted(set(stage.values()))]


def check_unread(streams: Mapping[str, Stream], name: str) -> None:
    """Refuses to drop a stream that another one is made from."""
    for other, stream in streams.items():
        if name in (source.name for source in made_from(stream)):
            raise RunError(f"the stream '{other}' is made from '{name}'", hint=f"drop '{other}' first")


class Inputs:
    """The time of what streams that are made from others read. The commits record it, and their queries go by that."""

    def __init__(self) -> None:
        self.times: dict[str, ViewTime] = {}
        self._due: dict[str, Due] = {}
        self._sources: dict[str, tuple[str, ...]] = {}
        self._read: dict[str, int] = {}  # up to which commit each has read

    def add(self, stream: Stream, trackers: Mapping[str, Tracker], store: Store) -> None:
        """Takes up a stream that is made from others."""
        log = derived(stream)
        if log is not None:
            names = tuple(sorted(source.name for source in log.inputs))
            own_trackers = {name: trackers[name] for name in names if name in trackers}
            self._sources[stream.name] = names
            self.times[stream.name] = ViewTime(own_trackers, store.last_mark(stream.name, names))
            self._due[stream.name] = BEGINNING, BEGINNING  # nobody knows yet
            self._read[stream.name] = 0  # until its first epoch says so

    def drop(self, name: str) -> None:
        for known in (self.times, self._due, self._sources, self._read):
            known.pop(name, None)

    def absorb(self, other: Inputs) -> None:
        """Takes over those of another one."""
        self.times |= other.times
        self._due |= other._due
        self._sources |= other._sources
        self._read |= other._read

    def read_through(self, stream: str) -> int | None:
        """Up to which commit all that are made from a stream have read it; None where none is."""
        return min((self._read[name] for name, sources in self._sources.items() if stream in sources), default=None)

    def look(self, now: Instant, caught_up: Mapping[str, bool]) -> None:
        for time in self.times.values():
            time.look(now, caught_up)

    def marks(self, stream: str) -> dict[str, ReaderTime]:
        """The watermarks of those that read a stream."""
        return {
            name: ReaderTime(self._sources[name], time.watermark)
            for name, time in self.times.items()
            if stream in self._sources[name]
        }

    def passed(self, now: Instant) -> dict[str, Instant]:
        """Those for which something is due, by the watermark or by the clock, and up to where time has passed."""
        due = {}
        for name, time in self.times.items():
            event, clock = self._due[name]
            if (event < END and event <= time.watermark) or clock <= now:  # at the end of time nothing is due any more
                due[name] = time.watermark
        return due

    def answered(self, name: str, offsets: str, due: Due | None) -> None:
        """An epoch of a stream that is made from others is committed: up to where it has read, and what is due."""
        if name in self._due:
            self._due[name] = due or self._due[name]
            self._read[name] = read_through(offsets)

    def announce(self, passed: Mapping[str, Instant]) -> None:
        """A commit announces the time to readers: nothing is due until they answer."""
        for name in passed:
            self._due[name] = NEVER
