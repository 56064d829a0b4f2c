"""The store: keeps an app's views, panes to deliver and progress, and writes each commit in one transaction."""

from penstock.store.base import Commit, Keep, Progress, Store, StoreError, Summary
from penstock.store.file import Tombstone
from penstock.store.lock import Standby, TakenOver
from penstock.store.opening import open_store
from penstock.store.postgres.store import PostgresStore
from penstock.store.reader import Reader
from penstock.store.sql_store import SqlStore
from penstock.store.sqlite.store import SqliteStore

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
