"""The store: keeps an app's views, panes to deliver and progress, and writes each commit in one transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.lazy import lazy

if TYPE_CHECKING:
    from penstock.store.base import Commit, Keep, Progress, Store, StoreError, Summary
    from penstock.store.file import Tombstone
    from penstock.store.lock import Standby, TakenOver
    from penstock.store.opening import open_store
    from penstock.store.postgres.store import PostgresStore
    from penstock.store.reader import Reader
    from penstock.store.sql_store import SqlStore
    from penstock.store.sqlite.store import SqliteStore

__getattr__ = lazy(
    __name__,
    {
        "base": "Commit Keep Progress Store StoreError Summary",
        "file": "Tombstone",
        "lock": "Standby TakenOver",
        "opening": "open_store",
        "postgres.store": "PostgresStore",
        "reader": "Reader",
        "sql_store": "SqlStore",
        "sqlite.store": "SqliteStore",
    },
)

__all__ = [
    "Commit",
    "Keep",
    "PostgresStore",
    "Progress",
    "Reader",
    "SqlStore",
    "SqliteStore",
    "Standby",
    "Store",
    "StoreError",
    "Summary",
    "TakenOver",
    "Tombstone",
    "open_store",
]
