"""A connection of a sink to PostgreSQL: statements, copies of whole frames, and errors that contain no password."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any, Final

import polars as pl

from penstock.postgres import driver, redact, with_settings
from penstock.redaction import redact_url
from penstock.sinks.base import SinkError

#: The oldest server with unique keys in which nulls are equal.
OLDEST: Final = 150_000
_MESSAGE: Final = re.compile(r"\b(?:ERROR|FATAL|PANIC):\s+(.*?)(?=\nLINE \d|\. SQLSTATE:|\Z)", re.DOTALL)
_PLAIN: Final = {"adbc.postgresql.use_copy": "false"}


class Session:
    """One connection, in which `name` is how the server shows it. Transactions are begun and ended by statements."""

    def __init__(self, url: str, name: str) -> None:
        self._url, dbapi = url, driver()
        try:
            self._connection: Any = dbapi.connect(with_settings(url, {"application_name": name}), autocommit=True)
        except Exception as error:
            raise SinkError(
                f"cannot connect to {redact_url(url)}",
                detail=_server_message(error, url),
                hint="check that PostgreSQL runs there; a password is taken from PGPASSWORD, ~/.pgpass or the address",
            ) from None  # the cause may show the address
        self.run("SET timezone = 'UTC'")
        self.run("SET client_min_messages = 'error'")

    def run(self, statement: str) -> list[tuple[Any, ...]]:
        """Runs a statement, and gives its rows."""
        try:
            return self._run(statement)
        except Exception as error:
            raise StatementError(_server_message(error, self._url), getattr(error, "sqlstate", None)) from None

    def _run(self, statement: str) -> list[tuple[Any, ...]]:
        with self._connection.cursor() as cursor:
            cursor.adbc_statement.set_options(**_PLAIN)
            cursor.execute(statement)
            return [] if cursor.description is None else list(cursor.fetchall())

    def copy(self, table: str, frame: pl.DataFrame) -> None:
        """Copies a frame into a temporary table."""
        try:
            with self._connection.cursor() as cursor:
                rows = frame.to_arrow(compat_level=pl.CompatLevel.oldest())
                cursor.adbc_ingest(table, rows, mode="append", temporary=True)
        except Exception as error:
            raise StatementError(_server_message(error, self._url), getattr(error, "sqlstate", None)) from None

    def close(self) -> None:
        """Closes the connection; the server rolls back an open transaction."""
        with suppress(Exception):
            self._connection.close()


class StatementError(SinkError):
    """What the database has answered, with its code where it gave one."""

    def __init__(self, message: str, code: str | None) -> None:
        super().__init__(f"PostgreSQL: {message}")
        self.code = code


def _server_message(error: Exception, url: str) -> str:
    """The server's message, or else the driver's, without our statement."""
    text = str(error).split("Query was:")[0]
    match = _MESSAGE.search(text)
    text = match[1] if match else text
    return redact(" ".join(line.strip() for line in text.splitlines() if line.strip()), url)
