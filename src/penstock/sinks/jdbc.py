"""A sink that is a table of any database with a Java driver: rows and position are written in one transaction.

>>> to_jdbc("sales", url="jdbc:h2:./shop", jar="h2.jar")
ps.to_jdbc('sales', url='jdbc:h2:./shop', jar='h2.jar')

It means the same as `to_postgres`, and is slower: each value goes to Java on its own. Rows are replaced by deleting
them and adding them again, which every database knows.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from itertools import groupby
from typing import Any, ClassVar, Final
from uuid import uuid4

from penstock.errors import DefinitionError, in_quotes
from penstock.model.rows import Rows
from penstock.model.view import WINDOW_COLUMNS
from penstock.redaction import redact_url
from penstock.sinks.base import Batch, Mode, OpenSink, Sink, SinkError, Target, above_zero, newest_pane
from penstock.sinks.directory import birth_of
from penstock.sinks.jdbc_connection import Database
from penstock.sinks.jdbc_dialect import dialect_of
from penstock.sinks.rows import Row, decoder

_ROWS: Final = 1_000
_POSITIONS: Final = "penstock_sinks"
_NAME: Final = re.compile(r'[\w"`$]+(\.[\w"`$]+){0,2}')


@dataclass(frozen=True, repr=False)
class Jdbc(Sink):
    """A table, with up to `rows_per_transaction` panes at once."""

    table: str
    url: str
    driver: str | None = None
    jar: str | None = None
    user: str | None = None
    secret: str | None = None
    create: bool = True
    rows_per_transaction: int = _ROWS

    modes: ClassVar[tuple[Mode, ...]] = ("upsert", "panes", "append")
    whole_commits: ClassVar[bool] = True

    @property
    def rows(self) -> int:
        return self.rows_per_transaction

    def open(self, target: Target) -> OpenSink:
        return _Writing(self, target)

    def __repr__(self) -> str:
        return self.written("to_jdbc", "table", "upsert", url=redact_url)


class _Writing(OpenSink):
    def __init__(self, sink: Jdbc, target: Target) -> None:
        self._sink, self._target, self._dialect = sink, target, dialect_of(sink.url)
        self._replaces = sink.mode == "upsert"
        self._columns = self._wanted()
        windows = [name for name in WINDOW_COLUMNS if name in self._columns]
        self._key = [*target.key_names, *windows] if self._replaces else []
        self._token = uuid4().hex
        self._mine = (target.app, target.delivery_name)
        place = sink.table.rpartition(".")[0]
        self._positions = f"{place}.{_POSITIONS}" if place else _POSITIONS
        self._database: Database | None = None
        database = self._opened()
        try:
            self._prepare(database)
            self.position = self._claim(database)
        finally:
            database.close()

    # panes

    def take(self, batch: Batch) -> None:
        if self._database is None:
            self._database = self._opened()
        try:
            self._write(self._database, batch)
        except BaseException:
            self.close()
            raise
        self.position = batch.last

    def _write(self, database: Database, batch: Batch) -> None:
        position = self._locked(database)
        rows = [row for row in batch.rows if row["pane"] > position]
        if self._replaces:
            self._delete(database, rows)
            rows = [row for row in rows if row["kind"] == "insert"]
        if rows:
            names = ", ".join(map(database.quoted, self._columns))
            marks = ", ".join("?" * len(self._columns))
            values = [self._values(row, list(self._columns)) for row in rows]
            database.run_many(f"INSERT INTO {self._sink.table} ({names}) VALUES ({marks})", values)
        moved = f"UPDATE {self._positions} SET pane = ?, store = ? WHERE app = ? AND sink = ?"
        database.run(moved, [max(position, batch.last), birth_of(self._target.outbox), *self._mine])
        database.commit()

    def _delete(self, database: Database, rows: list[Row]) -> None:
        """Deletes the rows that these rows replace: one statement for all that have nulls in the same columns."""
        if not self._key:
            database.run(f"DELETE FROM {self._sink.table}")
            return
        for nulls, some in groupby(sorted(rows, key=self._nulls), key=self._nulls):
            same = [
                f"{database.quoted(name)} IS NULL" if null else f"{database.quoted(name)} = ?"
                for name, null in zip(self._key, nulls, strict=True)
            ]
            columns = [name for name, null in zip(self._key, nulls, strict=True) if not null]
            statement = f"DELETE FROM {self._sink.table} WHERE {' AND '.join(same)}"
            if columns:
                database.run_many(statement, [self._values(row, columns) for row in some])
            else:
                database.run(statement)

    def _nulls(self, row: Row) -> tuple[bool, ...]:
        return tuple(row[name] is None for name in self._key)

    def _values(self, row: Row, names: list[str]) -> list[Any]:
        return [self._dialect.value(row[name], self._columns[name]) for name in names]

    def close(self) -> None:
        database, self._database = self._database, None
        if database is not None:
            database.close()

    # whose it is

    def _locked(self, database: Database) -> int:
        """How far the sink is; until the end of the transaction other processes wait."""
        same = "app = ? AND sink = ?"
        held = f"UPDATE {self._positions} SET token = ? WHERE {same} AND token = ?"
        if database.run(held, [self._token, *self._mine, self._token]) != 1:
            raise SinkError(
                f"another process writes to the table {self._sink.table} as the sink '{self._target.sink}'",
                hint="stop one of the two, or give one of the apps another name",
            )
        return int(database.rows(f"SELECT pane FROM {self._positions} WHERE {same}", self._mine)[0][0])

    def _claim(self, database: Database) -> int:
        """Shuts out earlier writers of this sink, and returns its position."""
        self._target.check_owner()
        update = f"UPDATE {self._positions} SET token = ? WHERE app = ? AND sink = ?"
        birth = birth_of(self._target.outbox)
        if database.run(update, [self._token, *self._mine]) == 0:
            added = f"INSERT INTO {self._positions} (app, sink, place, pane, store, token) VALUES (?, ?, ?, 0, ?, ?)"
            database.run(added, [*self._mine, self._sink.table, birth, self._token])
        select = f"SELECT place, pane, store FROM {self._positions} WHERE app = ? AND sink = ?"
        ((place, pane, store),) = database.rows(select, self._mine)
        self._check(place, int(pane), store, birth)
        database.commit()
        return int(pane)

    def _check(self, place: str, pane: int, store: int | None, birth: int | None) -> None:
        newest = newest_pane(self._target.outbox)
        if place != self._sink.table:
            raise SinkError(
                f"the sink '{self._target.sink}' has delivered its panes up to {pane} into {place}",
                hint="give the sink another name, or remove its row from " + self._positions,
            )
        if pane > newest or (None not in (birth, store) and birth != store):
            raise SinkError(
                f"the table {place} has panes of another store up to {pane}, whose pane ids are different",
                detail=f"our store has fired {newest} panes",
                hint=f"choose another table and sink name, or empty it and remove its row from {self._positions}",
            )

    # the tables

    def _opened(self) -> Database:
        sink = self._sink
        password = None if sink.secret is None else os.environ.get(sink.secret)
        if sink.secret is not None and password is None:
            raise SinkError(f"the variable {sink.secret} of the environment is not set", hint=f"export {sink.secret}=…")
        driver = sink.driver or self._dialect.driver
        if driver is None:
            raise SinkError(
                f"no driver is known for {redact_url(sink.url)}", hint="give driver='a.java.Class' and jar=…"
            )
        return Database(sink.url, driver, sink.jar, sink.user, password)

    def _wanted(self) -> dict[str, Any]:
        definition, columns = self._target.definition, decoder(self._target.definition).schema("panes")
        if isinstance(definition, Rows):
            return columns
        if not definition.windows.ends:
            columns = {name: kind for name, kind in columns.items() if name not in WINDOW_COLUMNS}
        if not self._replaces:
            return columns
        needed = {*self._target.key_names, *WINDOW_COLUMNS, *self._target.value_types, "final"}
        return {name: kind for name, kind in columns.items() if name in needed}

    def _prepare(self, database: Database) -> None:
        """Makes the tables that are missing; refuses one that lacks columns."""
        text = "varchar(200) NOT NULL"
        self._make(database, self._positions, f"CREATE TABLE {self._positions} (app {text}, sink {text}, place {text}, "
                   f"pane bigint NOT NULL, store bigint, token {text}, PRIMARY KEY (app, sink))")  # fmt: skip
        create = self._create(database)
        existing = self._make(database, self._sink.table, create if self._sink.create else None)
        missing = [name for name in self._columns if name not in existing]
        if missing:
            raise SinkError(
                f"the table {self._sink.table} lacks {in_quotes(missing)}",
                detail=f"it has {in_quotes(existing)}",
                hint=f"a table that fits:\n{create};" if create else "add the missing columns",
            )

    def _make(self, database: Database, table: str, create: str | None) -> list[str]:
        try:
            return database.columns(table)
        except SinkError as error:
            database.rollback()
            if create is None:
                hint = self._create(database)
                raise SinkError(
                    f"there is no table {table}", detail=error.message, hint=f"make it:\n{hint};" if hint else "make it"
                ) from None
        database.run(create)
        database.commit()
        return database.columns(table)

    def _create(self, database: Database) -> str | None:
        """The statement that makes the table, where the database's types are known."""
        kinds = {name: self._dialect.type_of(kind) for name, kind in self._columns.items()}
        if None in kinds.values():
            return None
        columns = ", ".join(f"{database.quoted(name)} {kind}" for name, kind in kinds.items())
        return f"CREATE TABLE {self._sink.table} ({columns})"


def to_jdbc(
    table: str,
    *,
    url: str,
    driver: str | None = None,
    jar: str | None = None,
    user: str | None = None,
    secret: str | None = None,
    create: bool = True,
    rows_per_transaction: int = _ROWS,
    mode: Mode = "upsert",
) -> Jdbc:
    """A table of a database with a Java driver, in a jar; PostgreSQL, H2 and SQLite are known, others need their table.

    `secret` names the variable of the environment with the password. For PostgreSQL, `to_postgres` is faster.
    """
    if not isinstance(table, str) or not _NAME.fullmatch(table):
        raise DefinitionError(f"not the name of a table: {table!r}", hint="for example 'sales'")
    if not isinstance(url, str) or not re.match(r"jdbc:\w+:", url):
        raise DefinitionError("not an address for JDBC", hint="for example 'jdbc:h2:./shop'")
    if secret is not None and not re.fullmatch(r"\w+", secret):
        raise DefinitionError(
            "secret names a variable of the environment, and is not the password itself", hint="secret='DB_PASSWORD'"
        )
    above_zero(rows_per_transaction, "rows_per_transaction")
    return Jdbc(table, url, driver, jar, user, secret, bool(create), rows_per_transaction, mode=mode)
