"""The embedded store: one SQLite file, written through ADBC, each commit in one transaction.

The file is `store.db` in the app's directory. Any SQLite client may read it while the app writes, from another
process: within this one only `query`, since two copies of SQLite in a process undo each other's locks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import RLock

import polars as pl

from penstock.kernel.plan import Plan
from penstock.store import catalog
from penstock.store.base import Commit, Keep, Store, StoreError
from penstock.store.connection import Connection
from penstock.store.entry import Part
from penstock.store.keys import encoded
from penstock.store.lock import FileLock
from penstock.store.reader import Reader, check_format
from penstock.store.state import SqlState
from penstock.store.tables import APPLICATION, FORMAT, OWN_TABLES, Layout, create_ids, ids_table
from penstock.store.views import drop, prepare
from penstock.store.write import closing_bounds, trim, write

KEEP = Keep()


class SqliteStore(Reader, Store):
    """An app's state in one SQLite file."""

    def __init__(self, directory: Path | str, keep: Keep = KEEP) -> None:
        super().__init__(directory)
        self.keep = keep
        self._lock = FileLock(self.directory / "lock")
        self._writer: Connection | None = None
        self._mutex = RLock()
        self._states: dict[str, SqlState] = {}

    @classmethod
    def open(cls, directory: Path | str, keep: Keep = KEEP) -> SqliteStore:
        """The store in a directory, which is made if it is missing. To write, `lock` it."""
        try:
            Path(directory).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(
                f"cannot make the directory «{directory}»: {error.strerror}", hint="choose one that can be written"
            ) from error
        return cls(directory, keep)

    def lock(self) -> int:
        """Makes this process the only writer, and gives it a new token."""
        if self._writer is not None:
            return self.token
        self._lock.take()
        try:
            self._writer = Connection(self.path, writes=True)
            with self._transaction(checked=False) as connection:
                if not connection.rows("SELECT 1 FROM sqlite_schema LIMIT 1").height:
                    connection.script(OWN_TABLES)
                    connection.run(f"PRAGMA application_id = {APPLICATION}")
                    connection.run(f"PRAGMA user_version = {FORMAT}")
                check_format(connection)
                connection.run(catalog.CATALOG)  # stores of before have none
                connection.run("UPDATE __meta SET value = value + 1 WHERE name = 'token'")
                (self.token,) = connection.rows("SELECT value FROM __meta WHERE name = 'token'").row(0)
        except BaseException:
            self.close()
            raise
        return self.token

    def close(self) -> None:
        """Closes the file and gives the lock back."""
        super().close()
        with self._mutex:
            if self._writer is not None:
                self._writer.close()
                self._writer = None
        self._lock.release()

    # one transaction

    @contextmanager
    def _transaction(self, checked: bool = True) -> Iterator[Connection]:
        """Everything inside is written, or nothing. Another writer's token ends it."""
        with self._mutex:
            connection = self._writing()
            try:
                if checked:
                    self._check_token(connection)
                yield connection
                connection.commit()
            except BaseException:
                connection.rollback()
                raise

    def _writing(self) -> Connection:
        if self._writer is None:
            raise StoreError(f"the store in «{self.directory}» is not locked", hint="call lock() before writing")
        return self._writer

    def _check_token(self, connection: Connection) -> None:
        (current,) = connection.rows("SELECT value FROM __meta WHERE name = 'token'").row(0)
        if current != self.token:
            raise StoreError(
                f"another process has taken over the store in «{self.directory}»",
                detail=f"its token is {current}, ours {self.token}",
                hint="stop this process: the other one goes on from the last commit",
            )

    # views

    def prepare(self, views: Mapping[str, Plan], statements: Mapping[str, str] | None = None) -> None:
        """Makes missing tables; a view with another definition is refused, one that fires otherwise is migrated."""
        with self._transaction() as connection:
            prepare(connection, views, statements or {})
            self._states |= {name: SqlState(Layout(name, p), connection, self._mutex) for name, p in views.items()}
            for name, closed in connection.rows("SELECT name, closed FROM __views WHERE closed IS NOT NULL").rows():
                if name in views:
                    self._states[name].closed = closed

    def drop(self, view: str) -> None:
        """Removes a view with its state."""
        with self._transaction() as connection:
            drop(connection, view)
            self._states.pop(view, None)

    def note(self, kind: Part, name: str, statement: str | None) -> None:
        """Remembers what a statement of a shell has made; without one it is the app's own."""
        with self._transaction() as connection:
            catalog.note(connection, kind, name, statement)

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
                connection.run("DELETE FROM __panes WHERE view = ?1", [flow])

    def forget_stream(self, stream: str) -> None:
        """Forgets how far a stream was. Until `forgotten` its name is remembered, for what lies elsewhere."""
        with self._transaction() as connection:
            catalog.forget_stream(connection, stream)

    def forgotten(self, stream: str) -> None:
        """All that a forgotten stream had is gone."""
        with self._transaction() as connection:
            connection.run("DELETE FROM __meta WHERE name = 'forgotten:' || ?1", [stream])

    def index(self, view: str, *columns: str) -> None:
        """Makes questions by these columns of a view fast, for example `index("trending", "window_end")`."""
        with self._transaction() as connection:
            connection.run(self.state(view).layout.create_index(columns))

    def state(self, view: str) -> SqlState:
        """A view's open windows, for the kernel."""
        if view not in self._states:
            raise StoreError(f"the view «{view}» is not prepared", hint="name it in prepare({…}) first")
        return self._states[view]

    # commits

    def commit(self, record: Commit) -> int:
        """Writes a commit, whole or not at all; its number."""
        with self._transaction() as connection:
            stacked = (name for stack, _ in record.stacked for name in stack.names)
            states = {name: self.state(name) for name in {*record.changes, *stacked, *record.expire}}
            number = write(connection, record, states)
            trim(connection, record, number, self.keep)
        for name, bound in closing_bounds(record, states).items():
            states[name].closed = bound
        return number

    def ids(self, stream: str, candidates: pl.DataFrame) -> pl.DataFrame:
        """Which of these ids (column `__id`) are known: `__id`, `__at`."""
        asked = candidates.select("__id").with_columns(encoded(candidates.select("__id")).alias("id"))
        with self._mutex:
            connection = self._writing()
            try:
                for statement in create_ids(stream):  # a stream without a view has none yet
                    connection.run(statement)
                found = connection.rows_of(f"SELECT id, at FROM {ids_table(stream)} WHERE id = ?1", asked.select("id"))
            finally:
                connection.rollback()
        if not found.height:
            return asked.select("__id", pl.lit(None, pl.Int64).alias("__at")).clear()
        found = found.select("id", pl.col("at").cast(pl.Int64).alias("__at"))
        return asked.join(found, on="id").select("__id", "__at")

    def delivered(self, sink: str, position: int) -> None:
        """A sink has all panes up to this id."""
        with self._transaction() as connection:
            connection.run("INSERT OR REPLACE INTO __sinks VALUES (?1, ?2)", [sink, position])

    def trim_outbox(self, through: int) -> int:
        """Removes the panes up to this id; how many they were."""
        with self._transaction() as connection:
            (count,) = connection.rows("SELECT count(*) FROM __panes WHERE id <= ?1", [through]).row(0)
            connection.run("DELETE FROM __panes WHERE id <= ?1", [through])
            connection.run("INSERT OR REPLACE INTO __meta VALUES ('trimmed', ?1)", [through])
        return int(count)
