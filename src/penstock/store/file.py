"""A file of the history as the store lists it, and what else the store remembers of the past."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from penstock.model.time import Instant

#: Rows that a stream has accepted, or rows that were dead letters.
FileKind: TypeAlias = Literal["events", "dead"]


@dataclass(frozen=True)
class File:
    """A file of the history: rows that commits `first` to `last` brought, events from `oldest` to `newest`.

    An epoch writes files before its commit has a number. `first` and `last` are 0 until the commit lists them; after
    that, rows need not say which commit brought them. Only files of several commits have a column for it.
    `path` is relative to the history's location. The tombstones up to the id `erased` have been applied to it. `level`
    is how often compaction has written its rows again.
    """

    path: str
    stream: str
    kind: FileKind
    first: int
    last: int
    rows: int
    bytes: int
    checksum: str
    oldest: Instant | None
    newest: Instant | None
    erased: int = 0
    query: str | None = None
    epoch: int | None = None
    level: int = 0

    @property
    def commit(self) -> int | None:
        """The commit that brought all of its rows; None where rows say so themselves."""
        return self.first if self.first == self.last else None


@dataclass(frozen=True)
class Tombstone:
    """An erasure: rows of a stream that came up to a commit and for which a condition holds are gone."""

    id: int
    stream: str
    commit: int
    condition: str
    reason: str | None
    at: Instant


@dataclass(frozen=True)
class StreamHistory:
    """What is kept of a stream, as its definition says; after which commit every event is held (None: none is)."""

    keep: str
    since: int | None
    schema: str


@dataclass(frozen=True)
class Listing:
    """All that a store knows of its history at one moment.

    `home` is the folder of the files that this store writes. `location` is where the history lies, None in the app's
    directory. `streams` is what is kept of each stream.
    """

    last: int
    home: str | None
    location: str | None
    files: list[File]
    tombstones: list[Tombstone]
    streams: Mapping[str, StreamHistory]

    def of(self, stream: str, kind: FileKind = "events") -> list[File]:
        """The files of a stream, in the order of their commits."""
        return [file for file in self.files if file.stream == stream and file.kind == kind]


@dataclass(frozen=True)
class HistorySize:
    """What the history of a stream takes: listed files and bytes, bytes of replaced files that are not removed yet, and
    the bytes that epochs and compaction have written so far."""

    files: int
    bytes: int
    replaced_bytes: int
    written: int
    rewritten: int

    @property
    def write_amplification(self) -> float | None:
        """How often a byte was written: 1 without any compaction."""
        return (self.written + self.rewritten) / self.written if self.written else None

    @property
    def space_amplification(self) -> float | None:
        """How many bytes lie there for each that is listed: 1 where nothing waits to be removed."""
        return (self.bytes + self.replaced_bytes) / self.bytes if self.bytes else None


@dataclass(frozen=True)
class PastVersions:
    """What a run from the past was joined with: the versions, up to which commit it read, and whether all windows."""

    view: str
    versions: Mapping[str, int]
    through: int
    whole: bool
