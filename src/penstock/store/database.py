"""The database of a store: a file of SQLite's in the app's directory, or a schema of PostgreSQL's that a note names."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from penstock.store.address import Address
from penstock.store.base import StoreError
from penstock.store.connection import Connection
from penstock.store.dialect import POSTGRES, SQLITE, Dialect
from penstock.store.format import check_migrated
from penstock.store.sqlite.connection import SqliteConnection, format_of

FILE: Final = "store.db"
#: Holds the URL of a store that does not lie in the app's directory, without its password.
NOTE: Final = "store.url"


class Database(ABC):
    """Where committed rows are read."""

    @abstractmethod
    def connect(self) -> Connection:
        """A connection that reads, to a database that is a store which this version knows."""

    @property
    @abstractmethod
    def dialect(self) -> Dialect:
        """The words of the database."""


@dataclass(frozen=True)
class SqliteFile(Database):
    """The file in an app's directory."""

    directory: Path

    @property
    def path(self) -> Path:
        return self.directory / FILE

    @property
    def dialect(self) -> Dialect:
        return SQLITE

    def connect(self) -> Connection:
        if not self.path.exists():
            raise StoreError(f"there is no store in '{self.directory}'", hint="run the app first, or check the path")
        try:
            return checked(SqliteConnection(self.path))
        except StoreError:
            # To follow a writer's log takes write access beside it; a store without a log has no writer.
            if Path(f"{self.path}-wal").exists():
                raise
            return checked(SqliteConnection(self.path, immutable=True))  # it would not notice a writer that starts


@dataclass(frozen=True)
class PostgresSchema(Database):
    """A schema of a server."""

    address: Address

    @property
    def dialect(self) -> Dialect:
        return POSTGRES

    def connect(self) -> Connection:
        from penstock.store.postgres.connection import reading

        return reading(self.address)


def checked(connection: SqliteConnection) -> SqliteConnection:
    """A connection to a file that is a store of this version; else it is closed."""
    try:
        check_migrated(str(connection.path), format_of(connection))
    except BaseException:
        connection.close()
        raise
    return connection


def database_of(directory: Path) -> Database:
    """The database of the app in a directory."""
    note = directory / NOTE
    if note.exists():
        return PostgresSchema(Address.remembered(note.read_text().strip()))
    return SqliteFile(directory)


def check_remembered(directory: Path, address: Address) -> None:
    """Refuses another store than the one that the directory has."""
    if (directory / FILE).exists():
        raise StoreError(
            f"'{directory}' has a store of its own, in SQLite", hint="choose another directory, or leave out the URL"
        )
    note = directory / NOTE
    if note.exists() and Address.read(note.read_text().strip()).shown != address.shown:
        raise StoreError(
            f"the store of '{directory}' is elsewhere: {note.read_text().strip()}",
            detail=f"now it was to be {address.shown}",
            hint=f"choose another directory; to move a store, move its schema and then change {note}",
        )


def remember(directory: Path, address: Address) -> None:
    """Where the store is, is known from now on to all who look at the directory."""
    hidden = directory / f".{NOTE}"
    hidden.write_text(f"{address.shown}\n")
    hidden.rename(directory / NOTE)


def made(directory: Path | str) -> Path:
    """A directory, which is made if it is missing."""
    try:
        Path(directory).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(
            f"cannot make the directory '{directory}': {error.strerror}", hint="choose one that can be written"
        ) from error
    return Path(directory)
