"""The embedded store: one SQLite file, written through ADBC, each commit in one transaction.

The file is `store.db` in the app's directory. Any SQLite client may read it while the app writes, from another
process: within this one only `query`, since two copies of SQLite in a process undo each other's locks.
"""

from __future__ import annotations

from pathlib import Path

from penstock.store import catalog, files, generations
from penstock.store.base import Keep
from penstock.store.connection import Busy
from penstock.store.database import SqliteFile, made
from penstock.store.lock import Standby
from penstock.store.sql_store import KEEP, TOKEN, SqlStore
from penstock.store.sqlite_connection import SqliteConnection, check_format
from penstock.store.tables import APPLICATION, FORMAT, OWN_TABLES
from penstock.store.versions import prepare_versions


class SqliteStore(SqlStore):
    """An app's state in one SQLite file."""

    def __init__(self, directory: Path | str, keep: Keep = KEEP) -> None:
        self._file = SqliteFile(Path(directory))
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
            with self._transaction(checked=False) as connection:
                if not connection.rows("SELECT 1 FROM sqlite_schema LIMIT 1").height:
                    connection.script(OWN_TABLES)
                    connection.run(f"PRAGMA application_id = {APPLICATION}")
                    connection.run(f"PRAGMA user_version = {FORMAT}")
                check_format(self._writer)
                connection.run(catalog.CATALOG)  # stores of before have none
                generations.clear(connection)
                files.prepare_master(connection)
                prepare_versions(connection)
                connection.run(f"PRAGMA user_version = {FORMAT}")
                connection.run("UPDATE __meta SET value = value + 1 WHERE name = 'token'")
                (self.token,) = connection.rows(TOKEN).row(0)
        except BaseException as error:
            self._close_writer()
            if not (standby is not None and isinstance(error, Busy)):
                self.close()
            raise
        return self.token

    def _told(self, busy: Busy) -> str:
        return (
            f"the store «{self._file.path}» is locked: the process before was stopped in the middle of a "
            "transaction; waiting until it goes on, or is killed"
        )
