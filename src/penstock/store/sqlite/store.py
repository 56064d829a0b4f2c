"""The embedded store: one SQLite file, written through ADBC, each commit in one transaction.

The file is `store.db` in the app's directory. Any SQLite client may read it while the app writes, from another
process: within this one only `query`, since two copies of SQLite in a process undo each other's locks.
"""

from __future__ import annotations

import logging
from pathlib import Path

from penstock.durable import sync
from penstock.store import generations
from penstock.store.base import Keep
from penstock.store.connection import Busy
from penstock.store.database import SqliteFile, made
from penstock.store.format import FORMAT, OLDEST
from penstock.store.lock import Standby
from penstock.store.migrations import create, migrate
from penstock.store.sql_store import KEEP, TOKEN, SqlStore
from penstock.store.sqlite.connection import SqliteConnection, copy_store, format_of
from penstock.store.tables import APPLICATION

_log = logging.getLogger("penstock.store")


class SqliteStore(SqlStore):
    """An app's state in one SQLite file."""

    def __init__(self, directory: Path | str, keep: Keep = KEEP, *, keeps_backup: bool = True) -> None:
        self._file = SqliteFile(Path(directory))
        #: Whether a store of an earlier version is copied before it is migrated.
        self._keeps_backup = keeps_backup
        super().__init__(directory, keep, self._file)

    @classmethod
    def open(cls, directory: Path | str, keep: Keep = KEEP) -> SqliteStore:
        """The store in a directory, which is made if it is missing. To write, `lock` it."""
        return cls(made(directory), keep)

    @property
    def path(self) -> Path:
        """The file."""
        return self._file.path

    def _claim(self, standby: Standby | None = None) -> int:
        try:
            self._writer = SqliteConnection(self._file.path, writes=True)
            self._back_up(self._writer)
            with self._transaction(checked=False) as connection:
                if not connection.tables():
                    create(connection)
                    connection.run(f"PRAGMA application_id = {APPLICATION}")
                else:
                    migrate(connection, str(self.path), format_of(self._writer))
                connection.run(f"PRAGMA user_version = {FORMAT}")
                generations.clear(connection)
                connection.run("UPDATE __meta SET value = value + 1 WHERE name = 'token'")
                (self.token,) = connection.rows(TOKEN).row(0)
        except BaseException as error:
            self._close_writer()
            if not (standby is not None and isinstance(error, Busy)):
                self.close()
            raise
        return self.token

    def _back_up(self, writer: SqliteConnection) -> None:
        """A copy of a store that is to be migrated, beside it."""
        known = bool(writer.tables())
        version = format_of(writer) if known else FORMAT
        writer.rollback()
        if version >= FORMAT or version < OLDEST or not self._keeps_backup:
            return
        target = self.path.with_name(f"{self.path.name}.format-{version}")
        message = "migrating the store '%s' from format %d to %d; a copy of it is '%s'"
        _log.warning(message, self.path, version, FORMAT, target)
        hidden = target.with_name(f".{target.name}")
        hidden.unlink(missing_ok=True)
        copy_store(self.path, hidden)
        sync(hidden)
        hidden.rename(target)

    def _told(self, busy: Busy) -> str:
        locked = f"the store '{self._file.path}' is locked"
        if (killed := self._lock.kill_holder()) is not None:
            return f"{locked}: process {killed}, which is silent, is in the middle of a transaction; killed it"
        return f"{locked} by a process in the middle of a transaction; waiting until it goes on, or is killed"
