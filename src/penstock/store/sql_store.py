"""What stores in SQL share: everything but how a writer is the only one, and what happens when it loses its database.

The app's directory has a lock, Spark's checkpoints and the master's files, whatever the database is.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import RLock
from typing import Final

import polars as pl

from penstock.kernel.keys import encoded
from penstock.kernel.plan import Plan
from penstock.model.time import Instant
from penstock.state.ids import ShardedIds, owner_of
from penstock.state.segment import Segment
from penstock.state.segment_state import SegmentState
from penstock.store import catalog, files, memory
from penstock.store.audits import AuditRecord, note_audit
from penstock.store.base import Commit, Keep, Store, StoreError
from penstock.store.connection import Busy, Connection
from penstock.store.database import Database
from penstock.store.entry import Part
from penstock.store.file import File, Tombstone
from penstock.store.generating import Generating
from penstock.store.lock import FileLock, Standby, TakenOver
from penstock.store.outbox import trim_panes
from penstock.store.reader import Reader
from penstock.store.segments import (
    FOLDER,
    Sharding,
    add_sharding,
    forget_segments,
    remove_sharding,
    replace_segments,
    replaced_segments,
    segments_of,
    shardings,
)
from penstock.store.sharded_ids import loaded_ids, move_ids
from penstock.store.sharded_view import ShardedView, move_to_segments, rewritten
from penstock.store.state import SqlState
from penstock.store.tables import Layout, create_ids, ids_table
from penstock.store.views import drop, prepare
from penstock.store.write import ViewState, closing_bounds, trim, write

KEEP: Final = Keep()
TOKEN: Final = "SELECT value FROM __meta WHERE name = 'token'"


class SqlStore(Reader, Generating, Store):
    """An app's state in a database."""

    def __init__(self, directory: Path | str, keep: Keep = KEEP, database: Database | None = None) -> None:
        super().__init__(directory, database)
        self.keep = keep
        self._lock = FileLock(self.directory / "lock")
        self._writer: Connection | None = None
        #: Whoever uses the writer's connection holds it: several threads may call a store.
        self._mutex = RLock()
        self._open = False  # a transaction is, of the thread that holds the lock
        self._states: dict[str, SqlState] = {}
        self._sharded: dict[str, ShardedView] = {}
        self._sharded_ids: dict[str, ShardedIds | None] = {}
        #: Whether the writer before may still live: it was silent, and this process took over.
        self.took_over = False

    def lock(self, standby: Standby | None = None) -> int:
        """Makes this process the only writer, and gives it a new token. A standby waits until it can."""
        if self._writer is not None:
            return self.token
        if standby is None:
            self._lock.take()
            return self._claim()
        self.took_over = self._lock.wait(standby)
        told = ""
        while True:
            try:
                return self._claim(standby)
            except Busy as busy:
                if (now := self._told(busy)) != told:
                    told = now
                    standby.tell(told)

    @abstractmethod
    def _claim(self, standby: Standby | None = None) -> int:
        """Opens the database to write, and takes a new token. A standby keeps its lock while another one is busy."""

    @abstractmethod
    def _told(self, busy: Busy) -> str:
        """What a standby is told that waits for another one."""

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
    def _transaction(self, checked: bool = True) -> Iterator[Connection]:
        """Everything inside is written, or nothing. Another writer's token ends it."""
        with self._mutex:
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
            raise StoreError(f"the store in «{self.directory}» is not locked", hint="call lock() before writing")
        return self._writer

    def check_place(self) -> None:
        """Refuses to go on with a file that was moved, deleted or replaced since it was opened."""
        with self._mutex:
            self._writing().check_place()

    def _check_token(self, current: int) -> None:
        if current != self.token or self._lock.is_lost:
            raise TakenOver(
                f"another process has taken over the store in «{self.directory}»",
                detail=f"its token is {current}, ours {self.token}",
                hint="stop this process: the other one goes on from the last commit",
            )

    # views

    def prepare(self, views: Mapping[str, Plan], statements: Mapping[str, str] | None = None) -> None:
        """Makes missing tables; a view with another definition is refused, one that fires otherwise is migrated."""
        with self._transaction() as connection:
            sharded = shardings(connection)
            stale = prepare(connection, views, statements or {}, sharded)
            for name, plan in views.items():
                if name in sharded:
                    self._states.pop(name, None)
                    self._sharded[name] = self._loaded(connection, sharded[name], plan)
                else:
                    self._states[name] = self._state_of(Layout(name, plan, connection.dialect), connection)
            (now,) = connection.rows("SELECT coalesce(max(now), 0) FROM __commits").row(0)
            for name in [name for name in views if name in sharded]:
                view = self._sharded[name]
                if name in stale or not view.is_current:
                    self._sharded[name] = rewritten(connection, view, name in stale, self.token, now)
            for name, closed in connection.rows("SELECT name, closed FROM __views WHERE closed IS NOT NULL").rows():
                if name in views:
                    self._note_closed(name, closed)

    def drop(self, view: str) -> None:
        """Removes a view with its state."""
        with self._transaction() as connection:
            drop(connection, view)
            self._states.pop(view, None)
            self._sharded.pop(view, None)

    def note(self, kind: Part, name: str, statement: str | None) -> None:
        """Remembers what a statement of a shell has made; without one it is the app's own."""
        with self._transaction() as connection:
            catalog.note(connection, kind, name, statement)

    def drop_note(self, kind: Part, name: str) -> None:
        """Forgets what a statement was to make."""
        with self._transaction() as connection:
            catalog.forget(connection, kind, name)

    def note_audit(self, record: AuditRecord) -> None:
        """Remembers what an audit has found."""
        with self._transaction() as connection:
            note_audit(connection, record)

    def note_rest(self, view: str, rests: bool) -> None:
        """Remembers that a view takes no events from here on, or that it does again."""
        with self._transaction() as connection:
            catalog.note_rest(connection, view, rests)

    def forget_sink(self, sink: str, flow: str | None = None) -> None:
        """Forgets a sink and how far it was; with the last sink of a flow without state, also its rows."""
        with self._transaction() as connection:
            catalog.forget(connection, "sink", sink)
            connection.run("DELETE FROM __sinks WHERE sink = ?1", [sink])
            if flow is not None:
                connection.run("DELETE FROM __outbox WHERE view = ?1", [flow])

    def forget_stream(self, stream: str) -> None:
        """Forgets how far a stream was. Until `forgotten` its name is remembered, for what lies elsewhere."""
        with self._transaction() as connection:
            catalog.forget_stream(connection, stream)
            (now,) = connection.rows("SELECT coalesce(max(now), 0) FROM __commits").row(0)
            remove_sharding(connection, owner_of(stream), now)
        self._sharded_ids.pop(stream, None)

    def forgotten(self, stream: str) -> None:
        """All that a forgotten stream had is gone."""
        with self._transaction() as connection:
            connection.run("DELETE FROM __meta WHERE name = 'forgotten:' || ?1", [stream])

    def index(self, view: str, *columns: str) -> None:
        """Makes questions by these columns of a view fast, for example `index("trending", "window_end")`."""
        with self._transaction() as connection:
            connection.script(self.tables_of(view).layout.create_index(columns))

    def _state_of(self, layout: Layout, connection: Connection) -> SqlState:
        return SqlState(layout, connection, self._own_read)

    def state(self, view: str) -> SqlState | SegmentState:
        """A view's open windows, for the kernel."""
        return self._sharded[view].state() if view in self._sharded else self.tables_of(view)

    def tables_of(self, view: str) -> SqlState:
        """A view's state in the store's own tables."""
        if view not in self._states:
            raise StoreError(f"the view «{view}» is not prepared", hint="name it in prepare({…}) first")
        return self._states[view]

    # segments

    @property
    def segments_at(self) -> str:
        """The folder of segments, beside the store."""
        return str(self.directory / FOLDER)

    def sharded(self, view: str) -> ShardedView | None:
        """A view whose state is in segments; None if it is in the store's own tables."""
        return self._sharded.get(view)

    def sharded_names(self) -> list[str]:
        """The views whose state is in segments."""
        return sorted(self._sharded)

    def count_open(self, view: str, most: int) -> int:
        """How many open windows a view in the store's own tables has; at most so many are counted."""
        table = self.tables_of(view).layout.table
        with self._own_read() as connection:
            sql = f"SELECT count(*) FROM (SELECT 1 FROM {table} WHERE final = 0 LIMIT {most}) open_windows"
            return int(connection.rows(sql).item())

    def shard(self, view: str, shards: int, now: Instant) -> None:
        """Moves the state of a view into segments, or cuts it into another number of shards."""
        with self._exclusive():
            with self._transaction() as connection:
                add_sharding(connection, view, shards)
                moved = self._sharded.get(view)
                if moved is not None:
                    moved = replace(moved, shards=shards)
                else:
                    state = self.tables_of(view)
                    moved = move_to_segments(connection, state.layout, self.segments_at, shards, self.token)
                    moved = replace(moved, closed=state.closed)
            self._states.pop(view, None)
            self._sharded[view] = moved

    def replace_segments(self, owner: str, old: Collection[Segment], new: Sequence[Segment], now: Instant) -> bool:
        """Lists segments in the place of others; false if those are not all listed any more."""
        with self._exclusive():
            with self._transaction() as connection:
                if not set(old) <= set(segments_of(connection, owner)):
                    return False
                replace_segments(connection, old, new, now)
            if owner in self._sharded:
                self._sharded[owner] = self._sharded[owner].changed(tuple(new), tuple(old))
            for stream, ids in self._sharded_ids.items():
                if ids is not None and owner_of(stream) == owner:
                    self._sharded_ids[stream] = ids.changed(new, tuple(old))
        return True

    def replaced_segments(self, before: Instant) -> list[Segment]:
        """The segments that were replaced before an instant and whose files may still be there."""
        return list(self._asked(lambda connection: replaced_segments(connection, before)))

    def forget_segments(self, segments: Collection[Segment]) -> None:
        """The files of replaced segments are gone."""
        with self._transaction() as connection:
            forget_segments(connection, segments)

    def _loaded(self, connection: Connection, sharding: Sharding, plan: Plan) -> ShardedView:
        segments = segments_of(connection, sharding.owner)
        at, shards, expired = self.segments_at, sharding.shards, sharding.expired
        return ShardedView(sharding.owner, plan, at, shards, segments, expired=expired)

    def _note_closed(self, view: str, bound: Instant) -> None:
        """All windows of a view that end up to here are final."""
        if view in self._sharded:
            self._sharded[view] = replace(self._sharded[view], closed=bound)
        elif view in self._states:
            self._states[view].closed = bound

    def _view_state(self, view: str) -> ViewState:
        return self._sharded[view] if view in self._sharded else self.tables_of(view)

    # commits

    def commit(self, record: Commit) -> int:
        """Writes a commit, whole or not at all; its number."""
        stacked = (name for stack, _ in record.stacked for name in stack.names)
        names = {*record.changes, *record.segments, *stacked, *record.expire}
        states = {name: self._view_state(name) for name in names}
        with self._exclusive():
            with self._transaction() as connection:
                number = write(connection, record, states)
                trim(connection, record, number, self.keep)
                expired = {name: segments_of(connection, name) for name in record.expire if name in self._sharded}
            for name, change in record.segments.items():
                self._sharded[name] = self._sharded[name].changed(change.added)
            for stream, change_of in record.id_segments.items():
                ids = self._sharded_ids[stream]
                if ids is not None:
                    before = ids.expired if change_of.expired is None else max(ids.expired, change_of.expired)
                    self._sharded_ids[stream] = replace(ids.changed(change_of.added), expired=before)
            for name, segments in expired.items():
                self._sharded[name] = replace(self._sharded[name], segments=segments, expired=record.expire[name])
            for name, bound in closing_bounds(record, states).items():
                self._note_closed(name, bound)
        return number

    def ids(self, stream: str, candidates: pl.DataFrame) -> pl.DataFrame:
        """Which of these ids (column `__id`) are known: `__id`, `__at`."""
        asked = candidates.select("__id").with_columns(encoded(candidates.select("__id")).alias("id"))
        with self._own_read() as connection:
            for statement in create_ids(stream):  # a stream without a view has none yet
                connection.run(statement)
            found = connection.rows_of(f"SELECT id, at FROM {ids_table(stream)} WHERE id = ?1", asked.select("id"))
        if not found.height:
            return asked.select("__id", pl.lit(None, pl.Int64).alias("__at")).clear()
        found = found.select("id", pl.col("at").cast(pl.Int64).alias("__at"))
        return asked.join(found, on="id").select("__id", "__at")

    def count_ids(self, stream: str, most: int) -> int:
        """How many ids are known in the store's own table; at most so many are counted."""
        with self._own_read() as connection:
            if f"__ids_{stream}" not in connection.tables():
                return 0
            sql = f"SELECT count(*) FROM (SELECT 1 FROM {ids_table(stream)} LIMIT {most}) known"
            return int(connection.rows(sql).item())

    def sharded_ids(self, stream: str) -> ShardedIds | None:
        """The known ids of a stream, if they are in segments."""
        if stream not in self._sharded_ids:
            with self._own_read() as connection:
                self._sharded_ids[stream] = loaded_ids(connection, stream, self.segments_at)
        return self._sharded_ids[stream]

    def shard_ids(self, stream: str, shards: int, now: Instant) -> None:
        """Moves the known ids of a stream into segments."""
        with self._exclusive():
            with self._transaction() as connection:
                moved = move_ids(connection, stream, self.segments_at, shards, self.token)
            self._sharded_ids[stream] = moved

    def sharded_id_streams(self) -> list[str]:
        """The streams whose known ids are in segments."""
        with self._exclusive():
            return sorted(stream for stream, ids in self._sharded_ids.items() if ids is not None)

    def memory(self, stream: str, asked: pl.DataFrame | None = None, *, part: str | None = None) -> pl.DataFrame:
        """What a stream that is made from others remembers: of these parts and keys, of a part, or all of it."""
        with self._own_read() as connection:
            return memory.recall(connection, stream, asked, part)

    def delivered(self, positions: Mapping[str, int]) -> None:
        """These sinks have all panes up to these ids."""
        with self._transaction() as connection:
            conflict = "ON CONFLICT (sink) DO UPDATE SET position = excluded.position"
            rows = pl.DataFrame(list(positions.items()), {"sink": pl.String, "position": pl.Int64}, orient="row")
            connection.put("__sinks", rows, columns=rows.columns, conflict=conflict)

    def trim_outbox(self, through: int) -> int:
        """Removes the blocks of panes that end at this id or before; how many panes they had."""
        with self._transaction() as connection:
            return trim_panes(connection, through)

    # the master

    def keep_master(self, kept: Mapping[str, tuple[str, str]], location: str | None) -> None:
        """Remembers what the master keeps of each stream from here on, with its schema, and where it lies."""
        with self._transaction() as connection:
            files.settle(connection, location)
            files.note_kept(connection, kept)

    def renew_home(self) -> None:
        """Writes the master's files into another folder from here on; those that are listed stay where they are."""
        with self._transaction() as connection:
            files.renew_home(connection)

    def swap_files(self, old: Collection[str], new: Sequence[File], now: Instant) -> None:
        """Lists files of the master in the place of others, which hold the same rows but for those that were erased."""
        with self._transaction() as connection:
            files.swap(connection, old, new, now)

    def expire_files(self, stream: str, old: Collection[str], now: Instant) -> None:
        """Takes files off the master's list: the stream's history begins after them."""
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

    def erase(self, stream: str, condition: str, reason: str | None, now: Instant) -> Tombstone:
        """Appends a tombstone: rows of a stream so far, for which a condition holds, are gone."""
        with self._transaction() as connection:
            return files.write_tombstone(connection, stream, condition, reason, now)

    def erase_refused(self, rows: Collection[int]) -> None:
        """Forgets the text of refused rows, by their rowid."""
        with self._transaction() as connection:
            erased = pl.DataFrame({"id": list(rows)}, {"id": pl.Int64})
            connection.change("__refused", "row = NULL", "rowid = ?1", erased)
