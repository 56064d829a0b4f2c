"""Finds a damaged store before it is asked: a question that happens not to read the damaged pages would be answered.

SQLite has no checksums. What can be seen is the structure: a file that is shorter than its header says, pages that are
no pages, rows that are not rows, a log that belongs to another file. Changed bytes inside a value cannot be seen; an
audit finds them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from penstock.store.base import StoreError
from penstock.store.connection import Connection
from penstock.store.dialect import quoted

#: A store up to this size is looked at whole; of a larger one, the tables that say how far the app is.
WHOLE: Final = 128 << 20
#: Tables of the store's own that may be as large as the views.
_LARGE: Final = (
    "__view_", "__ids_", "__outbox", "__refused", "__files", "__epochs", "__marks", "__ticks", "__memory", "__retried",
)  # fmt: skip


class Damaged(StoreError):
    """The store's file is not what SQLite has written."""


def check_undamaged(connection: Connection, path: Path, whole: int = WHOLE) -> None:
    """Refuses a store whose file is damaged, as far as that can be seen in bounded time."""
    _check_size(path)
    if path.stat().st_size <= whole:
        _check(connection, path, "PRAGMA quick_check(1)")
        return
    for table in connection.tables():
        if table.startswith("__") and not table.startswith(_LARGE):
            _check(connection, path, f"PRAGMA quick_check({quoted(table)})")


def _check(connection: Connection, path: Path, pragma: str) -> None:
    try:
        findings = connection.rows(pragma).to_series().to_list()
    except StoreError as error:
        raise damaged(path, error.detail or error.message) from error
    if findings != ["ok"]:
        raise damaged(path, str(findings[0]))


def _check_size(path: Path) -> None:
    """A file that was cut off. One with a log beside it may be shorter: its last pages are in the log."""
    if Path(f"{path}-wal").exists() and Path(f"{path}-wal").stat().st_size:
        return
    with path.open("rb") as file:
        header = file.read(100)
    size = int.from_bytes(header[16:18], "big")
    pages = int.from_bytes(header[28:32], "big")
    wanted = (65536 if size == 1 else size) * pages
    if path.stat().st_size < wanted:
        raise damaged(path, f"it has {path.stat().st_size} bytes, and its header says {wanted}")


def damaged(path: Path, detail: str) -> Damaged:
    return Damaged(
        f"the store '{path}' is damaged",
        detail=next((line for line in detail.splitlines() if not line.startswith("***")), detail),
        hint="stop the app and restore a savepoint (penstock savepoint restore), or a backup of the whole directory",
    )
