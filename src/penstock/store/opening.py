"""Opens the store of an app's directory: the embedded one, or one in PostgreSQL that a URL names."""

from __future__ import annotations

import os
from pathlib import Path

from penstock.store.address import VARIABLE, Address
from penstock.store.base import Keep
from penstock.store.database import FILE, NOTE, made
from penstock.store.postgres.store import PostgresStore
from penstock.store.sql_store import KEEP, SqlStore
from penstock.store.sqlite.store import SqliteStore


def open_store(directory: Path | str, keep: Keep = KEEP, url: str | None = None, app: str | None = None) -> SqlStore:
    """The store in a directory, which is made if it is missing. To write, `lock` it.

    It is where the URL says, else where it was, else where PENSTOCK_STORE says, else in the directory itself. A schema
    that the URL does not name has the name of the app.
    """
    place = made(directory)
    if url is None and (place / NOTE).exists():
        return PostgresStore(place, Address.remembered((place / NOTE).read_text().strip()), keep)
    if url is None and not (place / FILE).exists():
        url = os.environ.get(VARIABLE) or None
    return SqliteStore(place, keep) if url is None else PostgresStore(place, Address.read(url, app or "penstock"), keep)
