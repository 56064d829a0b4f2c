"""Reads a store, from any process and while another one writes. It needs no lock and cannot write."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Any

import polars as pl

from penstock.model.time import Instant
from penstock.store.base import PANES, Progress, StoreError, Summary
from penstock.store.connection import Connection
from penstock.store.entry import Entry
from penstock.store.file import File, Listing
from penstock.store.files import listed, listing
from penstock.store.tables import APPLICATION, FORMAT, quoted, select

FILE = "store.db"
_QUESTION = re.compile(r"(\s+|--[^\n]*(\n|$)|/\*.*?\*/|\()*(select|with|values|explain)\b", re.IGNORECASE | re.DOTALL)


class Reader:
    """What is committed in a store. Safe for several threads: each question has a connection of its own."""

    def __init__(self, directory: Path | str) -> None:
        self.directory = Path(directory)
        self.path = self.directory / FILE
        self._idle: list[Connection] = []
        self._pool = Lock()

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        with self._pool:
            connection = self._idle.pop() if self._idle else None
        if connection is None:
            connection = self._connect()
        try:
            yield connection
        except BaseException:
            connection.close()
            raise
        if connection.immutable:
            connection.close()  # it would not notice a writer that starts
            return
        with self._pool:
            self._idle.append(connection)

    def _connect(self) -> Connection:
        if not self.path.exists():
            raise StoreError(f"there is no store in «{self.directory}»", hint="run the app first, or check the path")
        try:
            return _checked(Connection(self.path))
        except StoreError:
            # To follow a writer's log takes write access beside it; a store without a log has no writer.
            if Path(f"{self.path}-wal").exists():
                raise
            return _checked(Connection(self.path, immutable=True))

    def _rows(self, sql: str, parameters: Sequence[object] = ()) -> pl.DataFrame:
        with self._reading() as connection:
            return connection.rows(sql, parameters)

    # questions

    def query(self, sql: str, parameters: Sequence[object] = ()) -> pl.DataFrame:
        """The answer to a question in SQLite's SQL: SELECT, WITH, VALUES or EXPLAIN.

        A column of numbers in which some are the text 'NaN' comes back as floats.
        """
        if not _QUESTION.match(sql):
            raise StoreError(
                f"not a question: «{sql.strip()[:60]}»", hint="only SELECT, WITH, VALUES and EXPLAIN are answered"
            )
        with self._reading() as connection:
            return _answer(connection, sql, parameters)

    @contextmanager
    def moment(self) -> Iterator[Callable[[str, Sequence[object]], pl.DataFrame]]:
        """Asks several questions, which all see the same commit."""
        with self._reading() as connection:
            connection.run("BEGIN")
            try:
                yield lambda sql, parameters: _answer(connection, sql, parameters)
            finally:
                connection.run("ROLLBACK")

    def views(self) -> dict[str, str]:
        """The definition of each view, as text."""
        return dict(self._rows("SELECT name, definition FROM __views ORDER BY name").iter_rows())

    def catalog(self) -> list[Entry]:
        """What the app is made of, in the order in which it was made; nothing in stores of before."""
        if not self._rows("SELECT 1 FROM sqlite_schema WHERE name = '__catalog'").height:
            return []
        rows = self._rows(
            "SELECT id, kind, name, statement, columns, since, rested FROM __catalog ORDER BY id"
        ).iter_rows()
        return [
            Entry(id, kind, name, statement, tuple((c, k) for c, k in json.loads(columns)), since, rested)
            for id, kind, name, statement, columns, since, rested in rows
        ]

    def leftovers(self) -> list[str]:
        """The streams that are forgotten in the store only."""
        found = self._rows("SELECT substr(name, 11) FROM __meta WHERE substr(name, 1, 10) = 'forgotten:'")
        return [name for (name,) in found.iter_rows()]

    def progress(self, query: str) -> Progress | None:
        """The last epoch of a query that was committed."""
        for row in self._rows(
            'SELECT "commit", query, epoch, offsets FROM __progress WHERE query = ?1', [query]
        ).rows():
            return Progress(*row)
        return None

    def last(self) -> Summary | None:
        """The newest commit."""
        columns = "number, kind, query, epoch, offsets, now, panes, timings"
        for row in self._rows(f"SELECT {columns} FROM __commits ORDER BY number DESC LIMIT 1").rows():
            return Summary(*row)
        return None

    def trackers(self) -> dict[str, dict[str, Any]]:
        """What each stream's watermark tracker has saved."""
        found = self._rows("SELECT stream, snapshot FROM __trackers")
        return {stream: json.loads(snapshot) for stream, snapshot in found.iter_rows()}

    def view_times(self) -> dict[str, Instant]:
        """Each view's watermark, where it has one."""
        return dict(self._rows("SELECT name, watermark FROM __views WHERE watermark IS NOT NULL").iter_rows())

    def closed(self) -> dict[str, Instant]:
        """Up to where each view's windows were closed when it allowed less lateness than now, where it did."""
        found = self._rows("SELECT substr(name, 8), value FROM __meta WHERE substr(name, 1, 7) = 'closed:'")
        return dict(found.iter_rows())

    def counters(self) -> dict[str, int]:
        """The counters, by name."""
        return dict(self._rows("SELECT name, value FROM __counters ORDER BY name").iter_rows())

    def panes(self, after: int, limit: int) -> pl.DataFrame:
        """The panes with an id above `after`, in order, at most `limit`."""
        sql = f"SELECT {select(list(PANES))} FROM __panes WHERE id > ?1 ORDER BY id LIMIT ?2"
        return typed(self._rows(sql, [after, limit]), PANES)

    def listing(self) -> Listing:
        """The files of the master and what is known of them, at one moment."""
        with self._reading() as connection:
            connection.run("BEGIN")
            try:
                return listing(connection)
            finally:
                connection.run("ROLLBACK")

    def removed_files(self, before: Instant) -> list[File]:
        """The files that were taken off the list before an instant."""
        with self._reading() as connection:
            return listed(connection, removed_before=before)

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


def typed(frame: pl.DataFrame, schema: dict[str, pl.DataType]) -> pl.DataFrame:
    """What SQLite gave, with the types it should have; it guesses them where all values are null."""
    if not frame.height:
        return pl.DataFrame(schema=schema)
    return frame.select(
        pl.lit(None, kind).alias(name) if frame[name].null_count() == frame.height else pl.col(name).cast(kind)
        for name, kind in schema.items()
    )


def _checked(connection: Connection) -> Connection:
    try:
        check_format(connection)
    except StoreError:
        connection.close()
        raise
    return connection


def check_format(connection: Connection) -> None:
    """Refuses a file that is no store, or one that a newer version wrote."""
    (application,) = connection.rows("PRAGMA application_id").row(0)
    (version,) = connection.rows("PRAGMA user_version").row(0)
    if application != APPLICATION:
        raise StoreError(f"«{connection.path}» is not a store of Penstock", hint="choose another directory")
    if version > FORMAT:
        raise StoreError(
            f"the store «{connection.path}» has format {version}, and this version of Penstock knows {FORMAT}",
            hint="use the newer version that wrote it",
        )


def _answer(connection: Connection, sql: str, parameters: Sequence[object]) -> pl.DataFrame:
    connection.refresh()
    found = connection.rows(sql, parameters)
    mixed = [name for name, kind in found.schema.items() if kind == pl.String and (found[name] == "NaN").any()]
    return _with_nan(connection, sql, parameters, found, mixed) if mixed else found


def _with_nan(
    connection: Connection, sql: str, parameters: Sequence[object], found: pl.DataFrame, mixed: list[str]
) -> pl.DataFrame:
    """Asks again for columns of numbers with 'NaN' among them, which the driver gives as rounded text."""
    inner = f"FROM ({sql.strip().rstrip(';')})"
    numbers = ", ".join(f"max(typeof({quoted(name)}) IN ('real', 'integer'))" for name in mixed)
    are_numbers = connection.rows(f"SELECT {numbers} {inner}", parameters).row(0)
    floats = [name for name, yes in zip(mixed, are_numbers, strict=True) if yes]
    if not floats:
        return found
    columns = ", ".join(f"CASE WHEN {quoted(n)} <> 'NaN' THEN {quoted(n)} END AS {quoted(n)}" for n in floats)
    values = connection.rows(f"SELECT {columns} {inner}", parameters)
    nan = [pl.when(found[name] == "NaN").then(float("nan")).otherwise(values[name]).alias(name) for name in floats]
    return found.with_columns(nan)
