"""Compaction: many small files of old epochs become few large ones, sorted by event time, without an effect on readers.

It is tiered. An epoch's files have level 0; `least` neighbours of one level become one file of the next, up to the
highest level or the target size. So an event is written again at most `levels` times, however old the app is, and at
most `least - 1` files of each level wait for others. A new file is written beside the old ones, and one transaction
puts it in their place on the list. Readers still find the old files for a while, or as long as a pin says
(`lake.pins`). Rows that were erased are not written again; for that a file is rewritten alone, at its own level.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Final

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from penstock.history.events.columns import COMMIT, of_one_commit, table
from penstock.history.events.erase import without_erased
from penstock.history.events.event_history import EventHistory
from penstock.history.events.pins import needed_from
from penstock.history.events.place import LakeError
from penstock.history.events.read import as_frame, read_file
from penstock.history.events.sweep import sweep, sweep_orphans
from penstock.history.events.texts import without_erased_texts
from penstock.history.events.writer import GROUP_ROWS, FileWriter, paths
from penstock.model.time import BEGINNING, Duration, Instant, duration
from penstock.model.types import Schema
from penstock.store.base import Store, StoreError
from penstock.store.file import File, FileKind, Listing, Tombstone

GRACE: Final = duration("10 minutes")
SWEEP: Final = duration("10 minutes")
#: A stronger compression than in an epoch.
_LEVEL: Final = 6
_ORDER: Final[dict[FileKind, tuple[str, ...]]] = {
    "events": ("__at", "__commit", "__partition", "__offset"),
    "dead": ("__commit", "__partition", "__offset"),
}


@dataclass(frozen=True)
class Rules:
    """When to compact. `target` is how large a file should be; `least` files of one level become one of the next.

    At the highest of the `levels` a file is left alone, and so are the newest `behind` commits. `memory` bounds the
    rows that are sorted at a time, in bytes: an app compacts while it runs, beside all else that it does. A row group
    has `group_rows` rows. Files that were replaced stay for a `grace`: as long as someone may read who began before.
    Files that no commit lists are looked for every `sweep`.
    """

    target: int = 128 << 20
    least: int = 8
    levels: int = 6
    behind: int = 8
    memory: int = 256 << 20
    grace: Duration = GRACE
    sweep: Duration = SWEEP
    group_rows: int = GROUP_ROWS


@dataclass
class CompactionResult:
    """What a compaction did: files and rows in and out, rows erased, files that expired, files that were removed."""

    before: int = 0
    after: int = 0
    rows: int = 0
    erased: int = 0
    expired: int = 0
    removed: int = 0

    def __bool__(self) -> bool:
        return any((self.before, self.after, self.erased, self.expired, self.removed))


@dataclass
class Compaction:
    """Compacts the history of an app whose store this process writes. One run at a time."""

    history: EventHistory
    rules: Rules = field(default_factory=Rules)
    _running: Lock = field(default_factory=Lock)
    _swept: Instant = BEGINNING

    @property
    def store(self) -> Store:
        assert isinstance(self.history.store, Store)
        return self.history.store

    def run(
        self, now: Instant, *, everything: bool = False, on_progress: Callable[[int, int], None] | None = None
    ) -> CompactionResult:
        """Expires files, compacts, and removes unused files. `on_progress` gets how many rows of all are done.

        With `everything` also the newest commits and few small files are compacted.
        """
        done = CompactionResult()
        with self._running:
            self._expire(done, now)
            self._note_untouched()
            for _ in range(1 if everything else self.rules.levels):  # a new file may complete a group of its level
                listing = self.store.listing()
                groups = list(self._groups(listing, everything))
                total = done.rows + sum(file.rows for group in groups for file in group)
                for group in groups:
                    self._rewrite(group, listing, done, now)
                    if on_progress is not None:
                        on_progress(done.rows, total)
            needed = needed_from(self.history.store.directory, now)
            done.removed = sweep(self.history.place, self.store, now - self.rules.grace, needed)
            if everything or now - self._swept >= self.rules.sweep:
                done.removed += self.sweep_orphans(now)
        return done

    def sweep_orphans(self, now: Instant) -> int:
        """Removes the files that no commit lists and no epoch is writing; how many."""
        self._swept = now
        return sweep_orphans(self.history.place, self.store, self.history.home, self.history.writes)

    # by age

    def _expire(self, done: CompactionResult, now: Instant) -> None:
        """Takes off the list what is older than its stream keeps, by event time: whole files only."""
        listing, trackers = self.store.listing(), self.store.trackers()
        for stream, kept_stream in listing.streams.items():
            tracker = trackers.get(stream, {})
            # Where the input has ended, the watermark is at the end of time, and nothing is older for that.
            watermark = min(tracker.get("watermark", BEGINNING), tracker.get("newest", BEGINNING))
            if kept_stream.keep in ("all", "none") or watermark <= BEGINNING:
                continue
            before = watermark - duration(kept_stream.keep)
            read = self.history.read_through(stream)
            old = [
                file
                for file in listing.of(stream)
                if file.newest is not None and file.newest < before and (read is None or file.last <= read)
            ]
            if old:
                self.store.expire_files(stream, paths(old), now)
                done.expired += len(old)

    # by tombstones

    def _note_untouched(self) -> None:
        """Files without a row that is erased need no new file, only a note."""
        listing = self.store.listing()
        for file in listing.files:
            pending = _pending(listing, file)
            if pending and not self._touched(file, pending, listing):
                self.store.note_erased([file.path], pending[-1].id)

    def _touched(self, file: File, pending: Sequence[Tombstone], listing: Listing) -> bool:
        schema = Schema.parse(listing.streams[file.stream].schema)
        rows = as_frame(read_file(self.history.place, file))
        return _left(rows, pending, schema, file.kind).height < rows.height

    # by size

    def _groups(self, listing: Listing, everything: bool) -> Iterator[list[File]]:
        """Files that become one: neighbours by commit of one level, with the same columns, together not too large."""
        kinds: tuple[FileKind, ...] = ("events", "dead")
        for stream in sorted({file.stream for file in listing.files}):
            newest = listing.last
            if not everything:
                # What others have yet to read of it stays apart: they take it file by file, as much as an epoch can.
                read = self.history.read_through(stream)
                newest = min(newest - self.rules.behind, newest if read is None else read)
            for kind in kinds:
                grouped = list(self._of_one(listing.of(stream, kind), newest, everything))
                yield from grouped
                grouped_paths = {file.path for group in grouped for file in group}
                for file in listing.of(stream, kind):
                    if file.path not in grouped_paths and _pending(listing, file):
                        yield [file]

    def _of_one(self, files: Sequence[File], newest: int, everything: bool) -> Iterator[list[File]]:
        """The groups among the files of one stream, which are in the order of their commits."""
        group: list[File] = []
        for file in files:
            large = file.bytes >= self.rules.target // 2
            if file.last > newest or large or (file.level >= self.rules.levels and not everything):
                group = yield from self._over(group, everything)
                continue
            if group and not everything and file.level != group[-1].level:
                group = yield from self._over(group, everything)
            if group and not self._fits(group, file):
                group = yield from self._over(group, everything=True)  # what is together is as large as it gets
            group.append(file)
            if not everything and len(group) == self.rules.least:
                group = yield from self._over(group, everything)
        yield from self._over(group, everything)

    def _over(self, group: list[File], everything: bool) -> Generator[list[File], None, list[File]]:
        """A group has ended, and is worth a new file or is not; the next one is empty."""
        if len(group) >= (2 if everything else self.rules.least):
            yield group
        return []

    def _fits(self, group: Sequence[File], file: File) -> bool:
        small = sum(one.bytes for one in group) + file.bytes <= self.rules.target
        held = sum(map(self._memory, group)) + self._memory(file) <= self.rules.memory
        return small and held and self._columns(group[-1]).equals(self._columns(file))

    def _columns(self, file: File) -> pa.Schema:
        """The columns that a file has, but for the commit of each row: an epoch's files have none."""
        schema = self._footer(file).schema.to_arrow_schema()
        return of_one_commit(schema) if COMMIT in schema.names else schema

    def _footer(self, file: File) -> pq.FileMetaData:
        with self.history.place.open(file.path) as opened:
            return pq.read_metadata(opened)

    def _memory(self, file: File) -> int:
        """How much a file's rows take when they are read, about: a file repeats no value as often as memory does."""
        footer = self._footer(file)
        encoded: int = sum(footer.row_group(number).total_byte_size for number in range(footer.num_row_groups))
        widths = sum(_width(kind) for kind in footer.schema.to_arrow_schema().types)
        return encoded + file.rows * widths

    def _rewrite(self, group: Sequence[File], listing: Listing, done: CompactionResult, now: Instant) -> None:
        """Writes the rows of several files into one, and swaps the lists."""
        stream, kind = group[0].stream, group[0].kind
        pending = [tombstone for file in group for tombstone in _pending(listing, file)]
        tables = [read_file(self.history.place, file) for file in group]
        rows = pa.concat_tables([one.select(tables[0].column_names) for one in tables])
        left = rows
        if pending:
            schema = Schema.parse(listing.streams[stream].schema)
            own = {tombstone.id: tombstone for tombstone in pending}.values()
            left = table(_left(as_frame(rows), list(own), schema, kind), rows.schema)
        first, last = min(file.first for file in group), max(file.last for file in group)
        path = f"{self.history.home}/{stream}/{kind}/{first}-{last}-{uuid.uuid4().hex}.parquet"
        known = max((t.id for t in listing.tombstones if t.stream == stream), default=0)
        level = max(file.level for file in group)
        if len(group) > 1:
            level = min(level + 1, self.rules.levels)
        blank = File(path, stream, kind, first, last, 0, 0, "", None, None, known, level=level)
        size = self.rules.group_rows
        with FileWriter(self.history.place, blank, rows.schema, _LEVEL, size) as writer:
            for some in _in_order(left, _ORDER[kind], size):
                writer.add_table(some)
        if writer.file is not None and self.history.place.size(path) != writer.file.bytes:
            raise LakeError(
                f"the file '{path}' was deleted while it was written", hint="do two apps share its directory?"
            )
        try:
            self.store.swap_files(paths(group), [writer.file] if writer.file is not None else [], now)
        except StoreError:
            writer.abandon()  # a stream was dropped meanwhile: its files do not belong to the history any more
            return
        done.before, done.after = done.before + len(group), done.after + (writer.file is not None)
        done.rows, done.erased = done.rows + rows.num_rows, done.erased + rows.num_rows - left.num_rows


def _left(rows: pl.DataFrame, pending: Sequence[Tombstone], schema: Schema, kind: FileKind) -> pl.DataFrame:
    """The rows of a file that are not erased."""
    return (without_erased if kind == "events" else without_erased_texts)(rows, pending, schema)


def _in_order(rows: pa.Table, columns: Sequence[str], size: int) -> Iterator[pa.Table]:
    """The rows by these columns, a row group of `size` at a time: all of them are not there twice."""
    order = pc.sort_indices(rows, sort_keys=[(name, "ascending") for name in columns])
    for begin in range(0, rows.num_rows, size):
        yield rows.take(order.slice(begin, size))


def _width(kind: pa.DataType) -> int:
    """The bytes that a value of a type takes at least."""
    try:
        bits: int = kind.bit_width
    except ValueError:  # of no fixed length: where it begins, and the rest the file knows
        return 8
    return (bits + 7) // 8


def _pending(listing: Listing, file: File) -> list[Tombstone]:
    """The tombstones that have not been applied to a file."""
    tombstones = (tombstone for tombstone in listing.tombstones if tombstone.stream == file.stream)
    return [tombstone for tombstone in tombstones if tombstone.id > file.erased and file.first <= tombstone.commit]
