"""Reads a store, from any process and while another one writes. It needs no lock and cannot write."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

import polars as pl

from penstock.model.time import Instant
from penstock.state.mapping import check_file
from penstock.state.pane_file import check_pane_file
from penstock.state.segment import Segment
from penstock.store import outbox
from penstock.store.base import Progress, StoreError, Summary
from penstock.store.block import Block, Head
from penstock.store.connection import Away, Connection
from penstock.store.damage import check_undamaged
from penstock.store.database import FILE, Database, SqliteFile, database_of
from penstock.store.entry import NO_PARTS, Entry, GenerationRecord
from penstock.store.file import File, HistorySize, Listing
from penstock.store.files import history_sizes, listing, removed
from penstock.store.format import IN_SEGMENTS
from penstock.store.marks import last_mark, ticks_of, times_of
from penstock.store.pane_files import pane_files
from penstock.store.segment_scan import from_newest
from penstock.store.segments import FOLDER, all_segments
from penstock.store.state_size import StateSize, state_sizes

__all__ = ["FILE", "Reader"]

_Answer = TypeVar("_Answer")
_QUESTION = re.compile(r"(\s+|--[^\n]*(\n|$)|/\*.*?\*/|\()*(select|with|values|explain)\b", re.IGNORECASE | re.DOTALL)


class InSegments(StoreError):
    """The rows of a view are in segments, which SQL of the database cannot read."""


class Reader:
    """What is committed in a store. Safe for several threads: each question has a connection of its own."""

    def __init__(self, directory: Path | str, database: Database | None = None) -> None:
        self.directory = Path(directory)
        self.database = database or database_of(self.directory)
        self._idle: list[Connection] = []
        self._pool = Lock()

    @property
    def segments_at(self) -> str:
        """The folder of segments, beside the store."""
        return str(self.directory / FOLDER)

    def check(self) -> None:
        """Refuses a damaged file, before questions are answered that do not happen to read the damaged part."""
        if isinstance(self.database, SqliteFile):
            path = self.database.path
            self._asked(lambda connection: check_undamaged(connection, path))
        self.check_segments()

    def check_segments(self) -> None:
        """Refuses a store that lists segments or panes whose files are missing or too short."""

        def check(connection: Connection) -> None:
            for segment in self._listed(connection):
                check_file(self.segments_at, segment)
            for file in pane_files(connection):
                check_pane_file(self.segments_at, file)

        from_newest(lambda: self._asked(check))

    @contextmanager
    def _reading(self, fresh: bool = False) -> Iterator[Connection]:
        with self._pool:
            if fresh:  # those that were open may all be lost
                idle, self._idle = self._idle, []
            else:
                idle = [self._idle.pop()] if self._idle else []
        if fresh:
            for old in idle:
                old.close()
        connection = idle[0] if idle and not fresh else self.database.connect()
        try:
            yield connection
        except BaseException:
            connection.close()
            raise
        if not connection.lasts:
            connection.close()
            return
        with self._pool:
            self._idle.append(connection)

    def _asked(self, ask: Callable[[Connection], _Answer]) -> _Answer:
        """An answer. A connection that was lost while nobody asked is replaced by another one, once."""
        try:
            with self._reading() as connection:
                return ask(connection)
        except Away:
            with self._reading(fresh=True) as connection:
                return ask(connection)

    def _rows(self, sql: str, parameters: Sequence[object] = ()) -> pl.DataFrame:
        return self._asked(lambda connection: connection.rows(sql, parameters))

    # questions

    def query(self, sql: str, parameters: Sequence[object] = ()) -> pl.DataFrame:
        """The answer to a question in the store's SQL: SELECT, WITH, VALUES or EXPLAIN.

        It has the same form whatever the store is: times are text in UTC, booleans 0 and 1, NaN is among floats.
        """
        if not _QUESTION.match(sql):
            raise StoreError(
                f"not a query: '{sql.strip()[:60]}'", hint="only SELECT, WITH, VALUES and EXPLAIN are answered"
            )
        try:
            return self._asked(lambda connection: connection.answer(sql, parameters))
        except StoreError as error:
            if IN_SEGMENTS.strip("_") not in f"{error.message} {error.detail}":
                raise
            raise InSegments(
                "the rows of this view are kept in segments, which SQL of the database cannot read",
                hint="ask with penstock query, over HTTP, or with the client",
            ) from error

    @contextmanager
    def moment(self) -> Iterator[Callable[[str, Sequence[object]], pl.DataFrame]]:
        """Asks several questions, which all see the same commit."""
        self.last()  # finds a connection that is not lost
        with self._reading() as connection, connection.moment():
            yield connection.answer

    @contextmanager
    def moment_of(self) -> Iterator[Connection]:
        """A connection on which everything sees the same commit. One that was lost is replaced, once."""
        with ExitStack() as stack:
            try:
                connection = stack.enter_context(self._reading())
                stack.enter_context(connection.moment())
            except Away:
                stack.pop_all()
                connection = stack.enter_context(self._reading(fresh=True))
                stack.enter_context(connection.moment())
            yield connection

    def views(self) -> dict[str, str]:
        """The definition of each view, as text."""
        return dict(self._rows("SELECT name, definition FROM __views ORDER BY name").iter_rows())

    def catalog(self) -> list[Entry]:
        """What the app is made of, in the order in which it was made."""
        rows = self._rows(
            f"SELECT id, kind, name, statement, columns, since, rested FROM __catalog WHERE {NO_PARTS} ORDER BY id"
        ).iter_rows()
        return [
            Entry(id, kind, name, statement, tuple((c, k) for c, k in json.loads(columns)), since, rested)
            for id, kind, name, statement, columns, since, rested in rows
        ]

    def definitions(self) -> str | None:
        """The definitions of the app at its last start or change, as JSON; None in a store of an earlier version."""
        rows = self._rows("SELECT statement FROM __catalog WHERE kind = 'definitions'")
        return rows.item() if rows.height else None

    def fingerprints(self) -> dict[str, str]:
        """By view what its state was computed by."""
        return dict(self._rows("SELECT name, fingerprint FROM __views ORDER BY name").iter_rows())

    def operator_definitions(self) -> dict[str, str]:
        """By stream what the state of the operator behind it depends on."""
        return dict(self._rows("SELECT stream, definition FROM __operators ORDER BY stream").iter_rows())

    def generations_of(self, view: str) -> list[GenerationRecord]:
        """The generations of a view that are remembered, oldest first. The first definition is not one of them."""
        rows = self._rows(
            'SELECT view, number, kind, definition, statement, pickled, point, "commit", now FROM __generations '
            "WHERE view = ?1 ORDER BY number", [view],
        )  # fmt: skip
        return [GenerationRecord(*row) for row in rows.iter_rows()]

    def leftovers(self) -> list[str]:
        """The streams that are forgotten in the store only."""
        rows = self._rows("SELECT substr(name, 11) FROM __meta WHERE substr(name, 1, 10) = 'forgotten:'")
        return [name for (name,) in rows.iter_rows()]

    def to_reread(self) -> list[str]:
        """The streams whose sources are to be read from their beginning."""
        rows = self._rows("SELECT substr(name, 8) FROM __meta WHERE substr(name, 1, 7) = 'reread:'")
        return [name for (name,) in rows.iter_rows()]

    def progress(self, query: str) -> Progress | None:
        """The last epoch of a query that was committed."""
        for row in self._rows(
            'SELECT "commit", query, epoch, offsets FROM __progress WHERE query = ?1', [query]
        ).rows():
            return Progress(*row)
        return None

    def last(self) -> Summary | None:
        """The newest commit."""
        columns = "number, kind, query, epoch, offsets, now, panes, timings, stream"
        for row in self._rows(f"SELECT {columns} FROM __commits ORDER BY number DESC LIMIT 1").rows():
            return Summary(*row)
        return None

    def times_of(self, reader: str, sources: Collection[str], after: int, through: int) -> pl.DataFrame:
        """The epochs of these streams as a reader saw them: `commit`, `now`, and the watermark `before` and `after`."""
        return self._asked(lambda connection: times_of(connection, reader, sources, after, through))

    def ticks_of(self, stream: str, after: int, through: int) -> pl.DataFrame:
        """The ticks that told a derived stream the time, in the same form."""
        return self._asked(lambda connection: ticks_of(connection, stream, after, through))

    def last_mark(self, reader: str, sources: Collection[str]) -> Instant:
        """Up to where time had passed for a derived stream when the last commit told it."""
        return self._asked(lambda connection: last_mark(connection, reader, sources))

    def trackers(self) -> dict[str, dict[str, Any]]:
        """What each stream's watermark tracker has saved."""
        snapshots = self._rows("SELECT stream, snapshot FROM __trackers")
        return {stream: json.loads(snapshot) for stream, snapshot in snapshots.iter_rows()}

    def view_times(self) -> dict[str, Instant]:
        """Each view's watermark, where it has one."""
        return dict(self._rows("SELECT name, watermark FROM __views WHERE watermark IS NOT NULL").iter_rows())

    def closed(self) -> dict[str, Instant]:
        """Up to where each view's windows were closed when it allowed less lateness than now, where it did."""
        rows = self._rows("SELECT substr(name, 8), value FROM __meta WHERE substr(name, 1, 7) = 'closed:'")
        return dict(rows.iter_rows())

    def forgotten_before(self) -> dict[str, Instant]:
        """Of views that forget keys: those that nothing has touched since this time are forgotten."""
        return dict(self._rows("SELECT name, closed FROM __views WHERE closed IS NOT NULL").iter_rows())

    def counters(self) -> dict[str, int]:
        """The counters, by name."""
        return dict(self._rows("SELECT name, value FROM __counters ORDER BY name").iter_rows())

    def heads(self, view: str, after: int, limit: int) -> list[Head]:
        """Which blocks of a view have panes after an id, in order, at most `limit`."""
        return self._asked(lambda connection: outbox.heads(connection, view, after, limit))

    def blocks(self, view: str, after: int, limit: int) -> list[Block]:
        """The blocks of a view that have panes after an id, in order, at most `limit`."""
        return self._asked(lambda connection: outbox.blocks(connection, self.segments_at, view, after, limit))

    def new_blocks(self, views: Sequence[str], after: int, limit: int) -> list[tuple[str, Block]]:
        """The blocks of these views that end after an id, in order, at most `limit`."""
        return self._asked(lambda connection: outbox.new_blocks(connection, self.segments_at, views, after, limit))

    def newest_blocks(self, after: int) -> dict[str, int]:
        """By view the id of its newest pane, of views with blocks that end after an id."""
        return self._asked(lambda connection: outbox.newest_blocks(connection, after))

    def listing(self) -> Listing:
        """The files of the history and what is known of them, at one moment."""

        def ask(connection: Connection) -> Listing:
            with connection.moment():
                return listing(connection)

        return self._asked(ask)

    def removed_files(self, before: Instant, needed_from: int = 1 << 62) -> list[File]:
        """The files that were taken off the list before an instant, and before the commit `needed_from`."""
        return self._asked(lambda connection: removed(connection, before, needed_from))

    def history_sizes(self) -> dict[str, HistorySize]:
        """By stream what its history takes."""
        return self._asked(history_sizes)

    def state_sizes(self) -> dict[str, StateSize]:
        """What the state of views takes that is in segments; that of others is in the store's own tables."""
        return self._asked(state_sizes)

    def segments(self) -> list[Segment]:
        """The segments that hold large state now. A store of an earlier version has none."""
        return self._asked(self._listed)

    @staticmethod
    def _listed(connection: Connection) -> list[Segment]:
        return list(all_segments(connection)) if "__segments" in connection.tables() else []

    def columns(self, table: str) -> list[str]:
        """The columns of a view, or of a table of the store's own."""
        return self._asked(lambda connection: connection.columns_of(table))

    def position(self, sink: str) -> int:
        """The id of the last pane that a sink has; 0 before the first."""
        for (position,) in self._rows("SELECT position FROM __sinks WHERE sink = ?1", [sink]).rows():
            return int(position)
        return 0

    def close(self) -> None:
        """Closes the connections that no question is using."""
        with self._pool:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()
