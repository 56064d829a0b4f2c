"""The outbox: the panes of each commit as one Arrow block per view, kept until everyone who receives them has them.

A pane's id counts all panes of the store from 1. A block has those from `first` to `last`. Where a view in segments has
many panes, its blocks refer to files, which the same commit lists (`pane_files.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeAlias

import polars as pl

from penstock.state.pane_file import FiledPanes, reference
from penstock.store.block import LARGEST, Block, Head, encoded
from penstock.store.connection import Connection
from penstock.store.pane_files import list_pane_files, remove_pane_files
from penstock.store.tables import set_meta

#: Panes of a view in one commit: as rows, or in files.
Panes: TypeAlias = pl.DataFrame | FiledPanes

OUTBOX: Final = (
    """CREATE TABLE __outbox (last INTEGER PRIMARY KEY, first INTEGER NOT NULL, "commit" INTEGER NOT NULL,
       view TEXT NOT NULL, panes BLOB NOT NULL)""",
    "CREATE INDEX __outbox_view ON __outbox (view, last)",
)
_ROW: Final = {"last": pl.Int64(), "first": pl.Int64(), "commit": pl.Int64(), "view": pl.String(), "panes": pl.Binary()}
_AFTER: Final = "FROM __outbox WHERE view = ?1 AND last > ?2 ORDER BY last LIMIT ?3"
_OLD_PANES: Final = """SELECT id, "commit", view, key, start, "end", "values", kind, timing, "index", final
    FROM __panes WHERE id > ?1 ORDER BY id LIMIT ?2"""


def create(connection: Connection) -> None:
    """The table of blocks, and where those of a view begin."""
    connection.script(OUTBOX)


def write_panes(connection: Connection, panes: Mapping[str, Panes], commit: int) -> int:
    """Adds the panes of a commit, by view; how many they are. The caller ends the transaction."""
    panes = {view: fired for view, fired in panes.items() if isinstance(fired, FiledPanes) or fired.height}
    if not panes:
        return 0
    (before,) = connection.rows("SELECT value FROM __meta WHERE name = 'panes'").row(0)
    last, rows = before, []
    for view, fired in panes.items():
        for count, data in _blocks_of(fired):
            rows.append((last + count, last + 1, commit, view, data))
            last += count
        if isinstance(fired, FiledPanes):
            list_pane_files(connection, fired.files, view, last)
    connection.put("__outbox", pl.DataFrame(rows, schema=_ROW, orient="row"), columns=list(_ROW))
    connection.run("UPDATE __meta SET value = ?1 WHERE name = 'panes'", [last])
    return int(last - before)


def _blocks_of(panes: Panes) -> Iterator[tuple[int, bytes]]:
    """How many panes each block has, and its bytes."""
    if isinstance(panes, FiledPanes):
        for block in panes.blocks:
            yield sum(one.rows for one in block), reference(block)
    else:
        for part in panes.iter_slices(LARGEST):
            yield part.height, encoded(part)


def heads(connection: Connection, view: str, after: int, limit: int) -> list[Head]:
    """Which blocks of a view have panes after an id, in order, at most `limit`."""
    rows = connection.rows(f'SELECT first, last, "commit" {_AFTER}', [view, after, limit])
    return [Head(*row) for row in rows.iter_rows()]


def blocks(connection: Connection, root: str, view: str, after: int, limit: int) -> list[Block]:
    """The blocks of a view that have panes after an id, in order, at most `limit`. Files are in the folder `root`."""
    rows = connection.rows(f'SELECT first, last, "commit", panes {_AFTER}', [view, after, limit])
    return [Block(*row, root=root) for row in rows.iter_rows()]


def new_blocks(
    connection: Connection, root: str, views: Sequence[str], after: int, limit: int
) -> list[tuple[str, Block]]:
    """The blocks of these views that end after an id, in order, at most `limit`."""
    among = ", ".join(f"?{number}" for number in range(3, len(views) + 3))
    rows = connection.rows(
        'SELECT view, first, last, "commit", panes FROM __outbox '
        f"WHERE last > ?1 AND view IN ({among}) ORDER BY last LIMIT ?2",
        [after, limit, *views],
    )
    return [(view, Block(*block, root=root)) for view, *block in rows.iter_rows()]


def newest_blocks(connection: Connection, after: int) -> dict[str, int]:
    """By view the id of its newest pane, of views with blocks that end after an id."""
    return dict(connection.rows("SELECT view, max(last) FROM __outbox WHERE last > ?1 GROUP BY view", [after]).rows())


def trim_panes(connection: Connection, through: int) -> int:
    """Removes the blocks that end at an id or before; how many panes they had. The caller ends the transaction."""
    (count, last) = connection.rows(
        "SELECT CAST(sum(last - first + 1) AS BIGINT), max(last) FROM __outbox WHERE last <= ?1", [through]
    ).row(0)
    if last is None:
        return 0
    connection.run("DELETE FROM __outbox WHERE last <= ?1", [through])
    remove_pane_files(connection, "last <= ?1", [through])
    set_meta(connection, "trimmed", last)
    return int(count)


def drop_panes(connection: Connection, view: str) -> None:
    """Removes all panes of a view or flow."""
    connection.run("DELETE FROM __outbox WHERE view = ?1", [view])
    remove_pane_files(connection, "view = ?1", [view])


# older stores


def take_over(connection: Connection) -> None:
    """Makes blocks of the panes of an older store, which had a row with JSON for each."""
    create(connection)
    after = 0
    while True:
        rows = connection.rows(_OLD_PANES, [after, LARGEST])
        if not rows.height:
            break
        after = int(rows["id"][-1])
        # A block is a stretch of ids without a gap, of one view and commit.
        change = (pl.struct("view", "commit", pl.col("id") - pl.int_range(pl.len())).rle_id()).alias("block")
        parts = rows.with_columns(change).partition_by("block", maintain_order=True, include_key=False)
        connection.put("__outbox", pl.DataFrame(map(_json_block, parts), schema=_ROW, orient="row"), columns=list(_ROW))
    connection.run("DROP TABLE __panes")


def _json_block(rows: pl.DataFrame) -> tuple[int, int, int, str, bytes]:
    """Rows with JSON as a block: an older store does not record the types of the values."""
    panes = rows.select(
        "key",
        "values",
        "start",
        "end",
        "kind",
        "timing",
        "index",
        pl.col("final").cast(pl.Boolean),
    )
    first, last, commit, view = rows["id"][0], rows["id"][-1], rows["commit"][0], rows["view"][0]
    return last, first, commit, view, encoded(panes)
