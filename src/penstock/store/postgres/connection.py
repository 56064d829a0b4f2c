"""A connection to PostgreSQL through ADBC: frames go in as arrays or by COPY, never row by row, and come out by COPY.

A lost connection is opened again by the next transaction; within one, everything fails until it is rolled back.
"""

from __future__ import annotations

import itertools
import json
import os
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final

import adbc_driver_manager
import polars as pl
import pyarrow as pa

from penstock.postgres import LOCK_TIMEOUT, driver, with_settings
from penstock.store.address import Address
from penstock.store.base import StoreError
from penstock.store.connection import BATCH, Away, Connection
from penstock.store.dialect import Postgres, numbered, quoted, select
from penstock.store.format import check_migrated
from penstock.store.postgres.errors import explained, is_lost
from penstock.store.postgres.values import as_lists, escaped, escaped_text, plain, unescaped, unescaped_texts

#: From this size on, a frame goes through COPY into a table of this session; below that as arrays in one statement.
MANY: Final = 5_000
_SETTINGS: Final = {
    "TimeZone": "UTC", "DateStyle": "ISO", "client_min_messages": "warning", "jit": "off",
    "cursor_tuple_fraction": "1",  # all rows of a cursor are read
    "tcp_keepalives_idle": "10", "tcp_keepalives_interval": "5", "tcp_keepalives_count": "3",
}  # fmt: skip
#: A commit is on the disk before it is reported; a server with a stricter setting keeps it.
_DURABLE: Final = """SELECT set_config('synchronous_commit', CASE WHEN current_setting('synchronous_commit') IN
    ('off', 'local') THEN 'on' ELSE current_setting('synchronous_commit') END, false)"""


class PostgresConnection(Connection):
    """One session of a server, or the next one after it was lost."""

    def __init__(self, address: Address, *, writes: bool = False, many: int = MANY) -> None:
        self.address, self.writes, self._many = address, writes, many
        self._numbers = itertools.count(1)  # of temporary tables
        self.dialect = Postgres(address.people)
        self._adbc: Any = None
        self._broken = False
        #: How many sessions there were so far.
        self.sessions = 0
        self._session()

    # the session

    def _session(self) -> Any:
        """The session, which is opened if there is none."""
        if self._broken:
            raise self._gone()
        if self._adbc is None:
            with self._explained():
                self._adbc = driver().connect(_url(self.address.url, self.writes), autocommit=True)
            self.sessions += 1
            try:
                self._set_up()
            except BaseException:
                self.close()
                raise
        return self._adbc

    def _set_up(self) -> None:
        own = quoted(self.address.own).replace("'", "''")
        settings = {**_SETTINGS, "search_path": f"{own}, pg_catalog, pg_temp"}
        if not self.writes:
            settings["default_transaction_read_only"] = "on"
        else:
            settings["lock_timeout"] = LOCK_TIMEOUT
        settings_sql = ", ".join(f"set_config('{name}', '{value}', false)" for name, value in settings.items())
        self.rows(f"SELECT {settings_sql}")
        if self.writes:
            self.rows(_DURABLE)
            self._adbc.adbc_connection.set_autocommit(False)

    def _gone(self) -> Away:
        return Away(
            f"the connection to the store '{self.address.shown}' was lost",
            hint="it is opened again as soon as the server can be reached; what was committed is there",
        )

    @property
    def process(self) -> int:
        """The server's process of this session."""
        return int(self.rows("SELECT pg_backend_pid()").item())

    # statements

    def rows(self, sql: str, parameters: Sequence[object] = ()) -> pl.DataFrame:
        return self._fetch(numbered(sql, "$"), tuple(map(escaped_text, parameters)) or None)

    def version(self) -> object:
        # Two snapshots that list the same transactions see the same rows.
        return self.rows("SELECT pg_current_snapshot()::text AS snapshot").item(), self.sessions

    def rows_of(self, sql: str, frame: pl.DataFrame) -> pl.DataFrame:
        if not frame.height:
            return pl.DataFrame()
        with self._source(frame, analyzed=True) as (source, bound):
            return self._fetch(f"SELECT r.* FROM {source} CROSS JOIN LATERAL ({numbered(sql, 'b.b')}) r", bound)

    def _fetch(self, sql: str, bound: Any) -> pl.DataFrame:
        session = self._session()
        with self._explained(), session.cursor() as cursor:
            if not sql.lstrip().upper().startswith(("SELECT", "WITH", "VALUES", "(")):
                cursor.adbc_statement.set_options(**{"adbc.postgresql.use_copy": "false"})
            cursor.execute(sql, bound)
            return unescaped(cursor.fetch_arrow_table())

    def batches(self, sql: str, parameters: Sequence[object], like: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """By a cursor of the server's: a session has one COPY at a time, and a question may read several views."""
        name = f"__scan_{next(self._numbers)}"
        session = self._session()
        bound = tuple(map(escaped_text, parameters)) or None
        self._run(f"DECLARE {name} NO SCROLL CURSOR FOR {numbered(sql, '$')}", bound)
        try:
            while True:
                with self._explained(), session.cursor() as cursor:
                    cursor.adbc_statement.set_options(**{"adbc.postgresql.use_copy": "false"})
                    cursor.execute(f"FETCH {BATCH} FROM {name}")
                    table = cursor.fetch_arrow_table()
                yield from unescaped_texts(table).to_batches()
                if table.num_rows < BATCH:
                    return
        finally:
            with suppress(StoreError):
                self._run(f"CLOSE {name}")

    def run(self, sql: str, parameters: Sequence[object] = ()) -> None:
        if sql.startswith(("CREATE TABLE", "CREATE TEMP TABLE")):
            sql = self.dialect.table(sql)
        self._run(numbered(sql, "$"), tuple(map(escaped_text, parameters)) or None)

    def _run(self, sql: str, bound: Any = None) -> None:
        session = self._session()
        with self._explained(), session.cursor() as cursor:
            cursor.execute(sql, bound)

    def put(
        self, table: str, frame: pl.DataFrame, *, columns: Sequence[str], values: Sequence[str] = (), conflict: str = ""
    ) -> None:
        expressions = ", ".join(values) if values else ", ".join(f"?{n}" for n in range(1, len(columns) + 1))
        if frame.height:
            with self._source(frame) as (source, bound):
                query = f"SELECT {numbered(expressions, 'b.b')} FROM {source}"
                self._run(f"INSERT INTO {table} ({select(columns)}) {query} {conflict}", bound)

    def remove(self, table: str, where: str, frame: pl.DataFrame) -> None:
        if frame.height:
            with self._source(frame) as (source, bound):
                self._run(f"DELETE FROM {table} USING {source} WHERE {numbered(where, 'b.b')}", bound)

    def change(self, table: str, to: str, where: str, frame: pl.DataFrame) -> None:
        if frame.height:
            with self._source(frame) as (source, bound):
                changed = f"{numbered(to, 'b.b')} FROM {source} WHERE {numbered(where, 'b.b')}"
                self._run(f"UPDATE {table} SET {changed}", bound)

    @contextmanager
    def _source(self, frame: pl.DataFrame, analyzed: bool = False) -> Iterator[tuple[str, Any]]:
        """A frame as a table `b` with columns b1, b2 …, and what must be bound for it."""
        names = [f"b{number}" for number in range(1, frame.width + 1)]
        frame = escaped(frame.rename(dict(zip(frame.columns, names, strict=True))))
        if frame.height < self._many:
            arrays = ", ".join(f"${number}" for number in range(1, frame.width + 1))
            yield f"unnest({arrays}) AS b({', '.join(names)})", as_lists(frame)
            return
        table = f"__bound_{next(self._numbers)}"
        session = self._session()
        with self._explained(), session.cursor() as cursor:
            cursor.adbc_ingest(table, frame.rechunk().to_arrow(), mode="create", temporary=True)
        if analyzed:
            self._run(f"ANALYZE {table}")
        yield f"{table} AS b", None
        self._run(f"DROP TABLE {table}")

    def answer(self, sql: str, parameters: Sequence[object] = ()) -> pl.DataFrame:
        return plain(self.rows(sql.strip().rstrip(";"), parameters))

    @contextmanager
    def moment(self) -> Iterator[None]:
        self._run("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        try:
            yield
        finally:
            with suppress(Away):
                self._run("ROLLBACK")

    # transactions

    def commit(self) -> None:
        session = self._session()
        with self._explained():
            session.adbc_connection.commit()

    def rollback(self) -> None:
        if self._adbc is None:
            self._broken = False
            return
        try:
            self._adbc.adbc_connection.rollback()
        except adbc_driver_manager.Error:
            self._broken = True
        if self._broken:
            self.close()

    def close(self) -> None:
        session, self._adbc, self._broken = self._adbc, None, False
        if session is not None:
            with suppress(adbc_driver_manager.Error):
                session.close()

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except adbc_driver_manager.Error as error:
            self._broken = self._broken or (self._adbc is not None and is_lost(error))
            raise explained(error, self.address, self.writes) from error

    # what there is

    def tables(self) -> list[str]:
        sql = "SELECT tablename::text AS name FROM pg_catalog.pg_tables WHERE schemaname = ?1"
        return self.rows(sql, [self.address.own])["name"].to_list()

    def columns_of(self, table: str) -> list[str]:
        sql = """SELECT attname::text AS name FROM pg_catalog.pg_attribute
                 WHERE attrelid = to_regclass(?1) AND attnum > 0 AND NOT attisdropped ORDER BY attnum"""
        return self.rows(sql, [f"{quoted(self.address.own)}.{quoted(table)}"])["name"].to_list()

    def kinds_of(self, table: str) -> list[tuple[str, str]]:
        sql = """SELECT attname::text, format_type(atttypid, NULL) FROM pg_catalog.pg_attribute
                 WHERE attrelid = to_regclass(?1) AND attnum > 0 AND NOT attisdropped ORDER BY attnum"""
        return self.rows(sql, [f"{quoted(self.address.own)}.{quoted(table)}"]).rows()

    def indexes_of(self, table: str) -> list[tuple[list[str], list[str]]]:
        sql = """SELECT c.relname::text, obj_description(c.oid, 'pg_class'), pg_get_indexdef(c.oid)
                 FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid
                 WHERE i.indrelid = to_regclass(?1)"""
        indexes = []
        for name, comment, definition in self.rows(sql, [f"{quoted(self.address.own)}.{quoted(table)}"]).rows():
            if name.startswith("__by_"):
                columns = json.loads(comment or "[]")
                indexes.append((columns, [definition, f"COMMENT ON INDEX {quoted(name)} IS '{(comment or '[]')}'"]))
        return indexes


def reading(address: Address) -> PostgresConnection:
    """A connection that reads, to a schema that is a store which this version knows."""
    connection = PostgresConnection(address)
    try:
        check_migrated(address.shown, format_of(connection))
    except BaseException:
        connection.close()
        raise
    return connection


def format_of(connection: PostgresConnection) -> int:
    """The format of the store in a schema; refuses a schema that is none."""
    where = connection.address.shown
    tables = connection.tables()
    if not tables:
        raise StoreError(f"there is no store at '{where}'", hint="run the app first, or check the URL")
    if "__meta" not in tables:
        raise StoreError(f"the schema of '{where}' is not a store of Penstock", hint="choose another schema")
    return int(connection.rows("SELECT value FROM __meta WHERE name = 'format'").item())


def _url(url: str, writes: bool) -> str:
    """The URL with time-outs, and who is asking."""
    settings = {"application_name": f"penstock {os.getpid()}@{socket.gethostname()}"[:63]}
    if writes:
        settings["target_session_attrs"] = "read-write"
    return with_settings(url, settings)
