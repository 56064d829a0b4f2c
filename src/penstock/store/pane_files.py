"""Which files hold panes: rows of the store, so that a commit lists them.

A file that everyone has read is listed with the time of that until it is removed: readers may still map it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

import polars as pl

from penstock.model.time import Instant
from penstock.state.pane_file import PaneFile
from penstock.store.connection import Connection

#: `last` is the last pane of its view and commit.
PANE_FILES: Final = (
    """CREATE TABLE __pane_files (path TEXT PRIMARY KEY, rows INTEGER NOT NULL, bytes INTEGER NOT NULL,
       view TEXT NOT NULL, last INTEGER NOT NULL, removed INTEGER) WITHOUT ROWID""",
)
_SELECT: Final = "SELECT path, rows, bytes FROM __pane_files WHERE removed"


def list_pane_files(connection: Connection, files: Sequence[PaneFile], view: str, last: int) -> None:
    """Makes files a part of the outbox, of blocks that end with a pane."""
    for file in files:
        values = [file.path, file.rows, file.size, view, last]
        connection.run("INSERT INTO __pane_files VALUES (?1, ?2, ?3, ?4, ?5, NULL)", values)


def pane_files(connection: Connection) -> list[PaneFile]:
    """The files that blocks of the outbox refer to."""
    if "__pane_files" not in connection.tables():  # an older store has none
        return []
    return [PaneFile(*row) for row in connection.rows(f"{_SELECT} IS NULL ORDER BY path").iter_rows()]


def removed_pane_files(connection: Connection, before: Instant) -> list[PaneFile]:
    """Those that nobody needed any more before an instant."""
    return [PaneFile(*row) for row in connection.rows(f"{_SELECT} < ?1 ORDER BY path", [before]).iter_rows()]


def remove_pane_files(connection: Connection, which: str, values: Sequence[object]) -> None:
    """Nobody needs the files of some blocks any more. They are removed later."""
    newest = connection.rows("SELECT now FROM __commits ORDER BY number DESC LIMIT 1")
    now = newest.item() if newest.height else 0
    connection.run(
        f"UPDATE __pane_files SET removed = ?{len(values) + 1} WHERE removed IS NULL AND {which}", [*values, now]
    )


def forget_pane_files(connection: Connection, files: Collection[PaneFile]) -> None:
    """Removed files are gone."""
    paths = pl.DataFrame([(file.path,) for file in files], {"path": pl.String}, orient="row")
    connection.remove("__pane_files", "path = ?1", paths)
