"""A connection to SQLite through ADBC: frames in, frames out, and errors that say what to do.

Two things about ADBC decide how this is written. A cursor that stays open keeps its transaction open, so none outlives
a call. And the type of a column is guessed from the first batch of rows, so all rows are one batch.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, cast
from urllib.parse import quote

import adbc_driver_manager
import adbc_driver_sqlite.dbapi as adbc
import polars as pl
import pyarrow as pa

from penstock.store.base import Gone, StoreError
from penstock.store.connection import BATCH, Busy, Connection, Full
from penstock.store.dialect import SQLITE, Dialect, marks, quoted, select
from penstock.store.tables import APPLICATION

_ONE_BATCH: Final = {"adbc.sqlite.query.batch_rows": 1 << 30}
_SMALL_BATCH: Final = {"adbc.sqlite.query.batch_rows": BATCH}
_WRITING: Final = (
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",
    "PRAGMA temp_store = MEMORY",
    "PRAGMA legacy_alter_table = ON",  # views of sharded state name no table
    "PRAGMA cache_size = -262144",  # 256 MB
    "PRAGMA wal_autocheckpoint = 16384",  # pages, 64 MB: a large commit is not copied twice at once
)


class SqliteConnection(Connection):
    """One connection. A writing one is always in a transaction, which begins with its first statement."""

    dialect: Dialect = SQLITE

    def __init__(self, path: Path, *, writes: bool = False, immutable: bool = False) -> None:
        self.path, self.writes, self.lasts = path, writes, not immutable
        self._mode = "rwc" if writes else "ro&immutable=1" if immutable else "ro"
        self._place: tuple[int, int] | None = None
        self._connect()
        self._place = self._found()

    def _connect(self) -> None:
        with self._explained():
            # The driver's own commit does nothing on a connection opened in autocommit mode, so we call ADBC's.
            self._adbc = adbc.connect(f"file:{quote(str(self.path.absolute()))}?mode={self._mode}", autocommit=True)
            try:
                self._set_up()
            except BaseException:
                self._adbc.close()
                raise

    def _set_up(self) -> None:
        self.run("PRAGMA busy_timeout = 10000")
        for pragma in _WRITING if self.writes else ("PRAGMA query_only = 1", "PRAGMA cache_size = -65536"):
            self.run(pragma)
        if self.writes:
            self._adbc.adbc_connection.set_autocommit(False)

    def rows(self, sql: str, parameters: Sequence[object] = ()) -> pl.DataFrame:
        answer = self._fetch_few(sql, tuple(parameters))
        return self._fetch(sql, tuple(parameters)) if answer is None else answer

    def rows_of(self, sql: str, frame: pl.DataFrame) -> pl.DataFrame:
        if not frame.height:  # ADBC crashes on an empty batch
            return pl.DataFrame()
        asked = frame.rechunk().to_arrow()
        answer = self._fetch_few(sql, asked) if frame.height < BATCH else None
        return self._fetch(sql, asked) if answer is None else answer

    def _fetch_few(self, sql: str, parameters: Any) -> pl.DataFrame | None:
        """An answer of less than a batch; None for a longer one.

        The driver reserves room for a whole batch, and keeps it as long as the answer lives. Most answers are small.
        Thousands of them with room for the largest would be more than a process can address.
        """
        with self._explained(), self._adbc.cursor() as cursor:
            cursor.adbc_statement.set_options(**_SMALL_BATCH)
            cursor.execute(sql, parameters)
            with cursor.fetch_record_batch() as reader:
                batch = next(reader, None)
                if batch is not None and (batch.num_rows >= BATCH or next(reader, None) is not None):
                    return None
                table_read = pa.Table.from_batches([] if batch is None else [batch], reader.schema)
                return cast(pl.DataFrame, pl.from_arrow(table_read))

    def _fetch(self, sql: str, parameters: Any) -> pl.DataFrame:
        with self._explained(), self._adbc.cursor() as cursor:
            cursor.adbc_statement.set_options(**_ONE_BATCH)
            cursor.execute(sql, parameters)
            return cast(pl.DataFrame, pl.from_arrow(cursor.fetch_arrow_table()))

    def version(self) -> object:
        self.check_place()
        with self._explained(), self._adbc.cursor() as cursor:
            cursor.execute("PRAGMA data_version")
            return cursor.fetchone()

    def batches(self, sql: str, parameters: Sequence[object], like: Sequence[str]) -> Iterator[pa.RecordBatch]:
        with self._explained(), self._adbc.cursor() as cursor:
            cursor.adbc_statement.set_options(**{"adbc.sqlite.query.batch_rows": BATCH})
            cursor.execute(f"SELECT {', '.join(like)} UNION ALL {sql}", tuple(parameters))
            with cursor.fetch_record_batch() as reader:
                for number, batch in enumerate(reader):
                    yield batch.slice(1) if number == 0 else batch

    def _refresh(self) -> None:
        """Notices that a table is another one: ADBC counts a statement's columns before SQLite has looked."""
        with self._explained(), self._adbc.cursor() as cursor:
            cursor.adbc_statement.set_sql_query("SELECT 1 FROM sqlite_schema LIMIT 1")
            cursor.adbc_statement.execute_update()

    def run(self, sql: str, parameters: Sequence[object] = ()) -> None:
        if sql.startswith("CREATE TABLE"):
            sql = self.dialect.table(sql)
        with self._explained(), self._adbc.cursor() as cursor:
            cursor.execute(sql, tuple(parameters))

    def put(
        self, table: str, frame: pl.DataFrame, *, columns: Sequence[str], values: Sequence[str] = (), conflict: str = ""
    ) -> None:
        expressions = ", ".join(values) if values else marks(len(columns))
        self._each(f"INSERT INTO {table} ({select(columns)}) VALUES ({expressions}) {conflict}", frame)

    def remove(self, table: str, where: str, frame: pl.DataFrame) -> None:
        self._each(f"DELETE FROM {table} WHERE {where}", frame)

    def change(self, table: str, to: str, where: str, frame: pl.DataFrame) -> None:
        self._each(f"UPDATE {table} SET {to} WHERE {where}", frame)

    def _each(self, sql: str, frame: pl.DataFrame) -> None:
        """Runs a statement for each row of the frame, bound to its parameters in order."""
        if frame.height:
            with self._explained(), self._adbc.cursor() as cursor:
                cursor.executemany(sql, frame.rechunk().to_arrow())

    def commit(self) -> None:
        with self._explained():
            self._adbc.adbc_connection.commit()

    def rollback(self) -> None:
        """Takes back what was not committed. Where SQLite has done so by itself, ADBC cannot: we reconnect."""
        try:
            self._adbc.adbc_connection.rollback()
        except adbc_driver_manager.Error:
            self._adbc.close()
            self.check_place()
            self._mode = "rw"  # a file that is gone is not created again
            self._connect()

    # what there is

    def tables(self) -> list[str]:
        return self.rows("SELECT name FROM sqlite_schema WHERE type = 'table'")["name"].to_list()

    def columns_of(self, table: str) -> list[str]:
        return self.rows("SELECT name FROM pragma_table_info(?1)", [table])["name"].to_list()

    def kinds_of(self, table: str) -> list[tuple[str, str]]:
        return self.rows("SELECT name, type FROM pragma_table_info(?1)", [table]).rows()

    def indexes_of(self, table: str) -> list[tuple[list[str], list[str]]]:
        sql = "SELECT name, sql FROM sqlite_schema WHERE type = 'index' AND tbl_name = ?1"
        columns = "SELECT name FROM pragma_index_info(?1) ORDER BY seqno"
        rows = self.rows(sql, [table]).rows()
        own = [(name, definition) for name, definition in rows if name.startswith("__by_")]
        return [(self.rows(columns, [name])["name"].to_list(), [definition]) for name, definition in own]

    @contextmanager
    def moment(self) -> Iterator[None]:
        self.run("BEGIN")
        try:
            yield
        finally:
            self.run("ROLLBACK")

    def answer(self, sql: str, parameters: Sequence[object] = ()) -> pl.DataFrame:
        self._refresh()
        frame = self.rows(sql, parameters)
        mixed = [name for name, kind in frame.schema.items() if kind == pl.String and (frame[name] == "NaN").any()]
        return self._with_nan(sql, parameters, frame, mixed) if mixed else frame

    def _with_nan(self, sql: str, parameters: Sequence[object], frame: pl.DataFrame, mixed: list[str]) -> pl.DataFrame:
        """Asks again for columns of numbers with 'NaN' among them, which the driver gives as rounded text."""
        inner = f"FROM ({sql.strip().rstrip(';')})"
        numbers = ", ".join(f"max(typeof({quoted(name)}) IN ('real', 'integer'))" for name in mixed)
        are_numbers = self.rows(f"SELECT {numbers} {inner}", parameters).row(0)
        floats = [name for name, yes in zip(mixed, are_numbers, strict=True) if yes]
        if not floats:
            return frame
        columns = ", ".join(f"CASE WHEN {quoted(n)} <> 'NaN' THEN {quoted(n)} END AS {quoted(n)}" for n in floats)
        values = self.rows(f"SELECT {columns} {inner}", parameters)
        nan = [pl.when(frame[name] == "NaN").then(float("nan")).otherwise(values[name]).alias(name) for name in floats]
        return frame.with_columns(nan)

    def check_place(self) -> None:
        """Refuses to go on with a file that was moved, deleted or replaced: what is written there nobody would find."""
        self._check_place()

    def _check_place(self, error: BaseException | None = None) -> None:
        if self._found() != self._place:
            raise Gone(
                f"the store '{self.path}' is gone: it was moved, deleted or replaced while the app ran",
                hint="put back what was there and start the app again; what was committed is in it",
            ) from error

    def _found(self) -> tuple[int, int] | None:
        """Which file is there."""
        try:
            stat = os.stat(self.path)
        except OSError:
            return None
        return stat.st_dev, stat.st_ino

    def close(self) -> None:
        self._adbc.close()

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except adbc_driver_manager.Error as error:
            if self._place is not None:
                self._check_place(error)  # else SQLite says something else of a file that is gone, each time
            raise explained(error, self.path) from error


_LOCKED: Final = ("database is locked", "database table is locked")
_FULL: Final = ("disk is full",)
#: What SQLite says → what is wrong, and what to do.
_EXPLAINED: Final = (
    (_FULL, "there is no room for the store '{path}'", "free some space, or allow it more"),
    (("readonly database",), "the store '{path}' cannot be written", "give the process write access to its directory"),
    (
        ("unable to open", "not authorized", "Permission denied"),
        "cannot open the store '{path}'",
        "check that the directory exists and that the process may read and write it",
    ),
    (
        _LOCKED,
        "the store '{path}' is locked by another program",
        "end the transaction that holds it, for example an open write in the sqlite3 shell",
    ),
    (
        ("not a database", "malformed", "database disk image", "unsupported file format"),
        "the store '{path}' is damaged, or no SQLite file",
        "restore it from a backup, or remove the directory and rewind the streams",
    ),
    (
        ("UNIQUE constraint failed: __view_", "CHECK constraint failed: final"),
        "a window that is final in the store '{path}' was to change",
        "closed windows stay closed when the allowed lateness grows: drop the view to compute it again",
    ),
    (("disk I/O error",), "the disk of the store '{path}' fails", "look at the system's log; restore from a backup"),
)


def explained(error: Exception, path: Path) -> StoreError:
    """The error in our words, with SQLite's own as the detail."""
    error_text = str(error)
    for signs, message, hint in _EXPLAINED:
        if any(sign in error_text for sign in signs):
            kind = Busy if signs is _LOCKED else Full if signs is _FULL else StoreError
            return kind(message.format(path=path), detail=error_text, hint=hint)
    return StoreError(f"the store '{os.fspath(path)}' refused a statement", detail=error_text)


def copy_store(source: Path, target: Path) -> None:
    """A copy as of one transaction, while an app writes: it is compact, and has no log beside it."""
    connection = SqliteConnection(source)
    try:
        connection.run("PRAGMA query_only = 0")  # it forbids this too; the file itself is open for reading only
        connection.run("VACUUM INTO ?1", [str(target.absolute())])
    finally:
        connection.close()


def format_of(connection: SqliteConnection) -> int:
    """The format of the store in a file; refuses a file that is none."""
    (application,) = connection.rows("PRAGMA application_id").row(0)
    if application != APPLICATION:
        raise StoreError(f"'{connection.path}' is not a store of Penstock", hint="choose another directory")
    (version,) = connection.rows("PRAGMA user_version").row(0)
    return int(version)
