"""A query of a database as the source of a table: SQLite or PostgreSQL, read whole through ADBC.

>>> database("sqlite:///shop.db", "SELECT id, tier FROM users")
ps.database('sqlite:///shop.db', 'SELECT id, tier FROM users')
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from penstock.errors import DefinitionError, PenstockError
from penstock.postgres import driver, redact, with_settings
from penstock.redaction import redact_url

_KINDS = ("sqlite", "postgresql", "postgres")


@dataclass(frozen=True, repr=False)
class Database:
    """What a query of a database gives. It is read into the memory of the app's process."""

    url: str
    query: str

    def rows(self) -> pl.DataFrame:
        """All rows, as the database has them now."""
        from adbc_driver_manager import Error
        from adbc_driver_sqlite import dbapi as sqlite

        kind, _, rest = self.url.partition("://")
        try:
            if kind == "sqlite":
                opened = sqlite.connect(rest.removeprefix("/") or rest)
            else:
                opened = driver().connect(with_settings(self.url, {"application_name": "penstock table"}))
            with opened as connection, connection.cursor() as cursor:
                cursor.execute(self.query)
                frame = pl.from_arrow(cursor.fetch_arrow_table())
        except Error as error:
            raise PenstockError(
                f"the database cannot be read: {redact(str(error), self.url).splitlines()[0]}"
            ) from None
        assert isinstance(frame, pl.DataFrame)
        return frame

    def __repr__(self) -> str:
        return f"ps.database({redact_url(self.url)!r}, {self.query!r})"


def database(url: str, query: str) -> Database:
    """The rows of a query: `database("postgresql://user@host/shop", "SELECT id, tier FROM users")`."""
    if url.partition("://")[0] not in _KINDS:
        raise DefinitionError(
            f"'{redact_url(url)}' is not a database that can be read here",
            hint="write sqlite:///path or postgresql://user@host/database",
        )
    return Database(url, query)
