"""What stores in SQL share: everything but how a writer is the only one, and what happens when it loses its database.

The app's directory has a lock, Spark's checkpoints and the history's files, whatever the database is.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import RLock
from typing import Final

import polars as pl

from penstock.kernel.plan import Plan
from penstock.kernel.step import Change
from penstock.model.time import Instant
from penstock.store import catalog, files, memory
from penstock.store.app_records import AppRecords
from penstock.store.arrivals import Ages, DeliveryTime, ages_between, write_arrivals, write_deliveries
from penstock.store.base import Commit, Keep, Store, StoreError
from penstock.store.connection import Busy, Connection
from penstock.store.database import Database
from penstock.store.entry import Part
from penstock.store.known_ids import KnownIds
from penstock.store.lock import LOCK, FileLock, Standby, TakenOver
from penstock.store.operators import Operators
from penstock.store.reader import Reader
from penstock.store.view_generations import ViewGenerations
from penstock.store.view_states import Access, PaneFile, Segment, SegmentState, ShardedView, SqlState, ViewStates
from penstock.store.write import drop_panes, trim, trim_panes, write

KEEP: Final = Keep()
TOKEN: Final = "SELECT value FROM __meta WHERE name = 'token'"


class SqlStore(Reader, Store):
    """An app's state in a database."""

    def __init__(self, directory: Path | str, keep: Keep = KEEP, database: Database | None = None) -> None:
        super().__init__(directory, database)
        self.keep = keep
        self._lock = FileLock(self.directory / LOCK)
        self._writer: Connection | None = None
        #: Held while the writer's connection is used: several threads may call a store.
        self._mutex = RLock()
        self._open = False  # a transaction is, of the thread that holds the lock
        #: The connection of a transaction of several parts, and whether one of them has failed.
        self._joined: Connection | None = None
        self._is_broken = False
        self.forget_definitions()
        #: Whether the writer before may still live: it was silent, and this process took over.
        self.took_over = False

    def forget_definitions(self) -> None:
        """Nothing is known of views, ids and operators until they are prepared: a run has ended, or none was there."""
        access = Access(self._transaction, self._own_read, self._exclusive, lambda: self.token, self.segments_at)
        self._views, self.known_ids, self.operators = ViewStates(access), KnownIds(access), Operators(access)
        self.generations = ViewGenerations(access, self._views, self, self.keep)
        self.records = AppRecords(access, self.directory)

    def lock(self, standby: Standby | None = None) -> int:
        """Makes this process the only writer, and gives it a new token. A standby waits until it can."""
        if self._writer is not None:
            return self.token
        if standby is None:
            self._lock.take()
            return self._claim()
        self.took_over = self._lock.wait(standby)
        last_message = ""
        while True:
            try:
                return self._claim(standby)
            except Busy as busy:
                if (now := self._told(busy)) != last_message:
                    last_message = now
                    standby.tell(last_message)

    @abstractmethod
    def _claim(self, standby: Standby | None = None) -> int:
        """Opens the database to write, and takes a new token. A standby keeps its lock while another one is busy."""

    @abstractmethod
    def _told(self, busy: Busy) -> str:
        """The message for a standby that waits for another one."""

    def check_owner(self) -> None:
        """Refuses to go on where another process has taken over. A small read, that any thread may do."""
        self._check_token(self._rows(TOKEN).item())

    def close(self) -> None:
        """Closes the database and gives the lock back."""
        super().close()
        self._close_writer()
        self._lock.release()

    def _close_writer(self) -> None:
        with self._mutex:
            if self._writer is not None:
                self._writer.close()
                self._writer = None

    # one transaction

    @contextmanager
    def together(self) -> Iterator[None]:
        """All that is written inside is one transaction. If one part fails, nothing is written.

        No other thread writes meanwhile. Readers of other connections see nothing of it before the end.
        """
        with self._mutex:
            before = (self._views.moment(), self.known_ids.moment(), self.operators.moment())
            try:
                with self._transaction() as connection:
                    self._joined = connection
                    try:
                        yield
                    finally:
                        self._joined = None
                    if self._is_broken:
                        raise StoreError("a part of a transaction has failed", hint="see the errors before this one")
            except BaseException:
                views, ids, operators = before
                self._views.go_back(views)
                self.known_ids.go_back(ids)
                self.operators.go_back(operators)
                raise
            finally:
                self._is_broken = False

    @contextmanager
    def _joining(self, connection: Connection) -> Iterator[Connection]:
        """A part of a larger transaction."""
        try:
            yield connection
        except BaseException:
            self._is_broken = True
            raise

    @contextmanager
    def _transaction(self, checked: bool = True) -> Iterator[Connection]:
        """Everything inside is written, or nothing. Another writer's token ends it."""
        with self._mutex:
            if self._joined is not None:
                with self._joining(self._joined) as connection:
                    yield connection
                return
            if self._open:
                raise StoreError("a transaction of the store must not begin inside another one")
            connection = self._writing()
            connection.check_place()
            self._open = True
            try:
                if checked:
                    self._begin(connection)
                yield connection
                if checked:
                    self._end(connection)
                else:
                    connection.commit()
            except BaseException as error:
                connection.rollback()
                if checked and isinstance(error, Busy):  # another one has written since we looked: who has taken over?
                    self._judge(connection, error)
                raise
            finally:
                self._open = False

    @contextmanager
    def _exclusive(self) -> Iterator[None]:
        """Inside, no other thread has a transaction, so what the store remembers of segments is what it lists."""
        with self._mutex:
            yield

    @contextmanager
    def _own_read(self) -> Iterator[Connection]:
        """Reads on the writer's connection. Inside a transaction it sees what that has written, and leaves it open."""
        with self._mutex:
            connection = self._writing()
            try:
                yield connection
            finally:
                if not self._open:
                    connection.rollback()

    def _begin(self, connection: Connection) -> None:
        """A transaction begins: is this process the writer?"""
        self._check_token(int(connection.rows(TOKEN).item()))

    def _end(self, connection: Connection) -> None:
        """All is written: it is committed."""
        connection.commit()

    def _judge(self, connection: Connection, error: Busy) -> None:
        """A transaction has failed because of others: has one of them taken over?"""
        current = int(connection.rows(TOKEN).item())
        connection.rollback()
        self._check_token(current)

    def _writing(self) -> Connection:
        if self._writer is None:
            raise StoreError(f"the store in '{self.directory}' is not locked", hint="call lock() before writing")
        return self._writer

    def check_place(self) -> None:
        """Refuses to go on with a file that was moved, deleted or replaced since it was opened."""
        with self._mutex:
            self._writing().check_place()

    def _check_token(self, current: int) -> None:
        if current != self.token or self._lock.is_lost:
            raise TakenOver(
                f"another process has taken over the store in '{self.directory}'",
                detail=f"its token is {current}, ours {self.token}",
                hint="stop this process: the other one goes on from the last commit",
            )

    # views

    def prepare(self, views: Mapping[str, Plan], statements: Mapping[str, str] | None = None) -> None:
        """Makes missing tables; a view with another definition is refused, one that fires otherwise is migrated."""
        self._views.prepare(views, statements or {})

    def drop(self, view: str) -> None:
        """Removes a view with its state."""
        self._views.drop(view)

    def note(self, kind: Part, name: str, statement: str | None) -> None:
        """Remembers what a statement of a shell has made; without one it is the app's own."""
        with self._transaction() as connection:
            catalog.note(connection, kind, name, statement)

    def note_long_calls(self, calls: str) -> None:
        """Stores the user code that makes no progress at the moment, as `long_calls.packed` has it."""
        with self._transaction() as connection:
            catalog.note_text(connection, "calls", calls)

    def note_graph(self, graph: str) -> None:
        """Remembers the graph of the app's dataflow."""
        with self._transaction() as connection:
            catalog.note_text(connection, "graph", graph)

    def note_definitions(self, definitions: str) -> None:
        """Remembers the definitions of the app, as JSON."""
        with self._transaction() as connection:
            catalog.note_text(connection, "definitions", definitions)

    def drop_note(self, kind: Part, name: str) -> None:
        """Forgets what a statement was to make."""
        with self._transaction() as connection:
            catalog.forget(connection, kind, name)

    def note_rest(self, view: str, rests: bool) -> None:
        """Remembers that a view takes no events from here on, or that it does again."""
        with self._transaction() as connection:
            catalog.note_rest(connection, view, rests)

    def forget_sink(self, sink: str, flow: str | None = None) -> None:
        """Forgets a sink and how far it was; with the last sink of a flow without state, also its rows."""
        with self._transaction() as connection:
            catalog.forget(connection, "sink", sink)
            catalog.forget_delivery_name(connection, sink)
            connection.run("DELETE FROM __sinks WHERE sink = ?1", [sink])
            connection.run("DELETE FROM __deliveries WHERE sink = ?1", [sink])
            if flow is not None:
                drop_panes(connection, flow)

    def forget_stream(self, stream: str) -> None:
        """Forgets how far a stream was. Until `forgotten` its name is remembered, for what lies elsewhere."""
        with self._transaction() as connection:
            catalog.forget_stream(connection, stream)
            self.known_ids.forget(connection, stream)
            self.operators.forget(connection, stream)

    def forgotten(self, stream: str) -> None:
        """All that a forgotten stream had is gone."""
        with self._transaction() as connection:
            connection.run("DELETE FROM __meta WHERE name = 'forgotten:' || ?1", [stream])

    def index(self, view: str, *columns: str) -> None:
        """Makes questions by these columns of a view fast, for example `index("trending", "window_end")`."""
        self._views.index(view, columns)

    def state(self, view: str) -> SqlState | SegmentState:
        """A view's open windows, for the kernel."""
        return self._views.state(view)

    def tables_of(self, view: str) -> SqlState:
        """A view's state in the store's own tables."""
        return self._views.tables_of(view)

    def load(self, view: str, change: Change) -> None:
        """Puts rows that were computed elsewhere into a view. No panes are made of them."""
        self._views.load(view, change)

    # segments

    def sharded(self, view: str) -> ShardedView | None:
        """A view whose state is in segments; None if it is in the store's own tables."""
        return self._views.sharded.get(view)

    def sharded_names(self) -> list[str]:
        """The views whose state is in segments, without generations in the making."""
        return sorted(self._views.sharded.keys() - self.generations.in_segments)

    def count_open(self, view: str, most: int) -> int:
        """How many open windows a view in the store's own tables has, counted up to `most`."""
        return self._views.count_open(view, most)

    def shard(self, view: str, shards: int) -> None:
        """Moves the state of a view into segments, or cuts it into another number of shards."""
        self._views.shard(view, shards)

    def replace_segments(self, owner: str, old: Collection[Segment], new: Sequence[Segment], now: Instant) -> bool:
        """Lists segments in the place of others; false if those are not all listed any more."""
        with self._exclusive():
            listed = self._views.replace_segments(owner, old, new, now)
            if listed:
                self.known_ids.replaced(owner, old, new)
                self.operators.replaced(owner, old, new)
        return listed

    def replaced_segments(self, before: Instant) -> list[Segment]:
        """The segments that were replaced before an instant and whose files may still be there."""
        return self._views.replaced_segments(before)

    def needed_pane_files(self) -> list[PaneFile]:
        """All files of panes that are listed, also those that nobody needs any more."""
        return self._views.needed_pane_files()

    def removed_pane_files(self, before: Instant) -> list[PaneFile]:
        """The files of panes that everyone had before an instant, and which may still be there."""
        return self._views.removed_pane_files(before)

    def forget_pane_files(self, files: Collection[PaneFile]) -> None:
        """These files of panes are gone."""
        self._views.forget_pane_files(files)

    def needed_segments(self) -> list[Segment]:
        """All segments that are listed, also those that were replaced. No transaction is open meanwhile."""
        return self._views.needed_segments()

    def generation_writes(self) -> frozenset[str]:
        """The write ids of generations in the making: their files are spared though no list names them."""
        return self.generations.writes()

    def first_time(self, commit: int) -> Instant | None:
        """The earliest time of a commit and those after it; None if the commit is not known any more."""
        oldest, first = self._rows("SELECT min(number), min(now) FROM __commits WHERE number >= ?1", [commit]).row(0)
        return first if oldest == commit else None

    def forget_segments(self, segments: Collection[Segment]) -> None:
        """The files of replaced segments are gone."""
        self._views.forget_segments(segments)

    # commits

    def commit(self, record: Commit) -> int:
        """Writes a commit, whole or not at all; its number."""
        states = self._views.of_commit(record)
        with self._exclusive():
            with self._transaction() as connection:
                number = write(connection, record, states)
                trim(connection, record, number, self.keep)
                expired = self._views.listed(connection, record.expire)
                arrivals = None if record.figures is None else record.figures.arrivals
                if arrivals is not None and record.mark is not None:
                    write_arrivals(connection, number, record.mark.stream, record.now, arrivals)
            self._views.committed(record, states, expired)
            self.known_ids.committed(record.id_segments)
            self.operators.committed(record.operators)
        return number

    def ids(self, stream: str, candidates: pl.DataFrame) -> pl.DataFrame:
        """Which of these ids (column `__id`) are known: `__id`, `__at`."""
        return self.known_ids.lookup(stream, candidates)

    def memory(self, stream: str, keys: pl.DataFrame | None = None, *, part: str | None = None) -> pl.DataFrame:
        """What a stream that is made from others remembers: of these parts and keys, of a part, or all of it."""
        with self._own_read() as connection:
            return memory.recall(connection, stream, keys, part)

    def delivered(self, positions: Mapping[str, int], deliveries: Collection[DeliveryTime] = ()) -> None:
        """These sinks have all panes up to these ids; `deliveries` are those of the commits that had some for them."""
        with self._transaction() as connection:
            conflict = "ON CONFLICT (sink) DO UPDATE SET position = excluded.position"
            rows = pl.DataFrame(list(positions.items()), {"sink": pl.String, "position": pl.Int64}, orient="row")
            connection.put("__sinks", rows, columns=rows.columns, conflict=conflict)
            write_deliveries(connection, deliveries)

    def ages_between(self, streams: Collection[str], after: int, through: int, now: Instant) -> Ages:
        """The ages, now, of the events that some streams had in the commits after one, up to another."""
        return self._asked(lambda connection: ages_between(connection, streams, after, through, now))

    def trim_outbox(self, through: int) -> int:
        """Removes the blocks of panes that end at this id or before; how many panes they had."""
        with self._transaction() as connection:
            return trim_panes(connection, through)

    # the history

    def keep_history(self, streams: Mapping[str, tuple[str, str]], location: str | None) -> None:
        """Remembers what the history keeps of each stream from here on, with its schema, and where it lies."""
        with self._transaction() as connection:
            files.settle(connection, location)
            files.note_kept(connection, streams)

    def renew_home(self) -> None:
        """Writes the history's files into another folder from here on; those that are listed stay where they are."""
        with self._transaction() as connection:
            files.renew_home(connection)

    def swap_files(self, old: Collection[str], new: Sequence[files.File], now: Instant) -> None:
        """Lists files of the history in the place of others, which hold the same rows except for erased ones."""
        with self._transaction() as connection:
            files.swap(connection, old, new, now)

    def expire_files(self, stream: str, old: Collection[str], now: Instant) -> None:
        """Takes files off the list: the stream's history begins after them."""
        with self._transaction() as connection:
            files.expire(connection, stream, old, now)

    def note_erased(self, paths: Collection[str], tombstone: int) -> None:
        """The tombstones up to this id have been applied to these files."""
        with self._transaction() as connection:
            files.erased(connection, paths, tombstone)

    def forget_files(self, paths: Collection[str]) -> None:
        """Files that were taken off the list are gone."""
        with self._transaction() as connection:
            files.forget(connection, paths)

    def erase(self, stream: str, condition: str, reason: str | None, now: Instant) -> files.Tombstone:
        """Appends a tombstone: rows of a stream so far, for which a condition holds, are gone."""
        with self._transaction() as connection:
            return files.write_tombstone(connection, stream, condition, reason, now)

    def erase_refused(self, rows: Collection[int]) -> None:
        """Forgets the text of refused rows, by their rowid."""
        with self._transaction() as connection:
            erased = pl.DataFrame({"id": list(rows)}, {"id": pl.Int64})
            connection.change("__refused", "row = NULL", "rowid = ?1", erased)
