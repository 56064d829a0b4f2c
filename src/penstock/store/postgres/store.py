"""The store in PostgreSQL: two schemas for an app, one of the store's own tables and one of what people read.

One writer: its session holds an advisory lock, and every transaction checks the token and counts itself. After a lost
connection that count tells whether a commit whose answer never came was made, and whether a copy of the database that
has taken over lacks any.
"""

from __future__ import annotations

import logging
import os
import time
import zlib
from contextlib import suppress
from pathlib import Path
from typing import Final

from penstock.store import generations
from penstock.store.address import Address
from penstock.store.base import Keep, StoreError
from penstock.store.connection import Away, Busy, Connection
from penstock.store.database import NOTE, PostgresSchema, check_remembered, made, remember
from penstock.store.dialect import quoted
from penstock.store.format import FORMAT
from penstock.store.lock import Standby
from penstock.store.migrations import create, migrate
from penstock.store.postgres.connection import MANY, PostgresConnection, format_of
from penstock.store.sql_store import KEEP, SqlStore
from penstock.store.tables import set_meta

_log = logging.getLogger("penstock.store")
_PAUSES: Final = (0.1, 5.0)
#: What the advisory locks of stores have in common: 'PENS'.
_LOCKS: Final = 0x50454E53
_CHECK: Final = """SELECT (SELECT value FROM __meta WHERE name = 'token' FOR SHARE),
    (SELECT value FROM __meta WHERE name = 'writes')"""


class PostgresStore(SqlStore):
    """An app's state in PostgreSQL; Spark's checkpoints and the history lie in the app's directory.

    Frames of at least `many` rows are written by COPY. A commit that loses the server waits for it for `patience`
    seconds, to learn whether it was committed.
    """

    def __init__(
        self,
        directory: Path | str,
        address: Address,
        keep: Keep = KEEP,
        *,
        many: int = MANY,
        patience: float = 600.0,
    ) -> None:
        self.address, self._many, self._patience = address, many, patience
        super().__init__(directory, keep, PostgresSchema(address))
        #: How many transactions this writer knows to be committed.
        self._writes = 0
        self._closing = False
        #: The session of the writer that has the lock.
        self._session = 0

    @classmethod
    def open(cls, directory: Path | str, url: str, keep: Keep = KEEP) -> PostgresStore:
        """The store that a URL names, for an app in a directory. To write, `lock` it."""
        return cls(made(directory), Address.read(url, "penstock"), keep)

    # one writer

    @property
    def moves_by_size(self) -> bool:
        """People read views in PostgreSQL with their own tools: only those who ask for it have state in segments."""
        return False

    def _claim(self, standby: Standby | None = None) -> int:
        self._closing = False
        try:
            check_remembered(self.directory, self.address)
            writer = PostgresConnection(self.address, writes=True, many=self._many)
            self._writer = writer
            self._take_lock(writer, ours=self.took_over)
            self._make(writer)
            with self._transaction(checked=False) as connection:
                connection.run("UPDATE __meta SET value = value + 1 WHERE name IN ('token', 'writes')")
                self.token, self._writes = map(int, connection.rows(_CHECK).row(0))
            remember(self.directory, self.address)
        except BaseException as error:
            self._close_writer()
            if not (standby is not None and isinstance(error, Busy)):
                self.close()
            raise
        return self.token

    def _told(self, busy: Busy) -> str:
        time.sleep(_PAUSES[0])
        return f"{busy.message}; waiting until it is free"

    def _take_lock(self, writer: PostgresConnection, ours: bool) -> None:
        """The advisory lock, which a session has until it ends. `ours`: its current holder has lost its right to it."""
        numbers = f"{_LOCKS}, {_as_int4(zlib.crc32(self.address.schema.encode()))}"
        if not writer.rows(f"SELECT pg_try_advisory_lock({numbers})").item():
            holders = writer.rows(
                "SELECT a.pid, a.application_name FROM pg_catalog.pg_locks l JOIN pg_catalog.pg_stat_activity a "
                "ON a.pid = l.pid AND a.datname = current_database() WHERE l.locktype = 'advisory' AND l.granted "
                f"AND (l.classid::bigint, l.objid::bigint) = ({_LOCKS}, {zlib.crc32(self.address.schema.encode())})"
            ).rows()
            for process, _ in holders if ours else []:
                with suppress(StoreError):  # it may be another user's
                    writer.rows(f"SELECT pg_terminate_backend({int(process)})")
            writer.rollback()
            who = ", ".join(f"'{name or 'unknown'}' (session {process})" for process, name in holders)
            raise Busy(
                f"the store '{self.address.shown}' is in use by {who or 'another process'}",
                hint="stop it first, wait for it with --standby, or only read with penstock.store.Reader",
            )
        writer.commit()
        self._session = writer.sessions

    # what there is at the start

    def _make(self, writer: PostgresConnection) -> None:
        own, people = quoted(self.address.own), quoted(self.address.people)
        with self._transaction(checked=False):
            if not writer.tables():
                writer.script([f"CREATE SCHEMA IF NOT EXISTS {name}" for name in (own, people)])
                create(writer)
                writer.script(_MORE)
            else:
                self._migrate(writer)
            set_meta(writer, "format", FORMAT)
            generations.clear(writer)
        self._make_role(writer)

    def _migrate(self, writer: PostgresConnection) -> None:
        """The transaction is the only backup here: it changes all tables or none."""
        version = format_of(writer)
        if version < FORMAT:
            _log.warning("migrating the store '%s' from format %d to %d", self.address.shown, version, FORMAT)
        migrate(writer, self.address.shown, version)

    def _make_role(self, writer: PostgresConnection) -> None:
        """A role that reads what people read; where this user may not make it, an administrator can."""
        role, people = quoted(self.address.role), quoted(self.address.people)
        try:
            with self._transaction(checked=False):
                known = writer.rows("SELECT 1 FROM pg_catalog.pg_roles WHERE rolname = ?1", [self.address.role])
                if not known.height:
                    writer.run(f"CREATE ROLE {role} NOLOGIN")
                writer.run(f"GRANT USAGE ON SCHEMA {people} TO {role}")
                writer.run(f"GRANT SELECT ON ALL TABLES IN SCHEMA {people} TO {role}")
                writer.run(f"ALTER DEFAULT PRIVILEGES IN SCHEMA {people} GRANT SELECT ON TABLES TO {role}")
        except Busy:
            raise
        except StoreError as error:
            _log.warning(
                "there is no role %s that may only read: %s; an administrator can make it, and the next start grants "
                "it what it needs: CREATE ROLE %s NOLOGIN", role, error.detail, role,
            )  # fmt: skip

    # one transaction

    def _begin(self, connection: Connection) -> None:
        assert isinstance(connection, PostgresConnection)
        if connection.sessions != self._session:
            self._take_lock(connection, ours=False)  # the one before was lost, and its lock with it
        connection.run("UPDATE __meta SET value = value + 1 WHERE name = 'writes'")
        token, writes = map(int, connection.rows(_CHECK).row(0))
        self._check_token(token)
        if writes != self._writes + 1:
            raise StoreError(
                f"the store '{self.address.shown}' is not the one that this process wrote to: it has "
                f"{writes - 1} transactions, and {self._writes} were committed",
                detail="another server has taken over, and it lacks what was committed last, or it was restored",
                hint="start the app again: it goes on from what the store has, or says what is missing",
            )

    def _end(self, connection: Connection) -> None:
        try:
            connection.commit()
        except Away as lost:
            connection.rollback()
            if not self._became(connection, lost):
                raise
        self._writes += 1
        with suppress(OSError):
            os.utime(self.directory / NOTE)  # processes that wait for a commit watch it

    def _became(self, connection: Connection, lost: Away) -> bool:
        """Whether a transaction was committed whose answer never came. Until that is known nothing goes on."""
        _log.warning("the store was lost in the middle of a commit; asking what became of it: %s", lost.detail)
        first, longest = _PAUSES
        end, pause = time.monotonic() + self._patience, first
        while not self._closing:
            try:
                token, writes = map(int, connection.rows(_CHECK).row(0))
                connection.rollback()
                self._check_token(token)
                return writes == self._writes + 1
            except Away:
                connection.rollback()
                if time.monotonic() > end:
                    break
            time.sleep(pause)
            pause = min(longest, pause * 2)
        raise StoreError(
            f"it is unknown whether the last commit is in the store '{self.address.shown}': it cannot be reached",
            hint="start the app again when the server is there: it goes on from what was committed",
        ) from lost

    def _judge(self, connection: Connection, error: Busy) -> None:
        if not isinstance(error, Away):
            super()._judge(connection, error)

    def close(self) -> None:
        """Ends the sessions and gives the lock back."""
        self._closing = True
        super().close()


#: What the tables have here beside what all stores have, and SQLite's functions that questions use: times are text.
_MORE: Final = (
    *(
        f"CREATE FUNCTION {head} RETURNS {kind} LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $f$ SELECT {body} $f$"
        for head, kind, body in (
            ("date(x text)", "text", "pg_catalog.substr(x, 1, 10)"),
            ("datetime(x text)", "text", "pg_catalog.substr(x, 1, 19)"),
            ("datetime(x text, by text)", "text", "to_char(x::timestamp + by::interval, 'YYYY-MM-DD HH24:MI:SS')"),
            ("unixepoch(x text)", "bigint", "floor(extract(epoch FROM x::timestamp))::bigint"),
            ("substr(x text, start bigint)", "text", "pg_catalog.substr(x, start::int)"),
            ("substr(x text, start bigint, n bigint)", "text", "pg_catalog.substr(x, start::int, n::int)"),
            ("instr(x text, part text)", "bigint", "strpos(x, part)::bigint"),
            ("round(x float8, n bigint)", "float8", "pg_catalog.round(x::numeric, n::int)::float8"),
            ("typeof(x anyelement)", "text", "pg_typeof(x)::text"),
            ("hex(x bytea)", "text", "upper(encode(x, 'hex'))"),
            ("json_array_length(x text)", "bigint", "pg_catalog.json_array_length(x::json)::bigint"),
            ("json_extract(x text, path text)", "text", "jsonb_path_query_first(x::jsonb, path::jsonpath) #>> '{}'"),
        )
    ),
    "ALTER TABLE __refused ADD COLUMN rowid BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
    "CREATE UNIQUE INDEX ON __views (lower(name))",
    "INSERT INTO __meta VALUES ('writes', 0)",
)


def _as_int4(number: int) -> int:
    return number - (1 << 32) if number >= 1 << 31 else number
