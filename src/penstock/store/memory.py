"""What streams that are made from others remember between their epochs: bytes by a part and a key, one table a stream.

It is written by the commit of the epoch that changed it, so that it never disagrees with what the epoch gave out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import polars as pl

from penstock.store.connection import Connection
from penstock.store.dialect import quoted

#: The columns of what is to be remembered; without a value the key is forgotten.
REMEMBERED: Final[dict[str, pl.DataType]] = {"part": pl.String(), "key": pl.Binary(), "value": pl.Binary()}


def memory_table(stream: str) -> str:
    return quoted(f"__memory_{stream}")


def create(connection: Connection, stream: str) -> None:
    """Makes the table of a stream where it is missing."""
    columns = "part TEXT NOT NULL, key BLOB NOT NULL, value BLOB NOT NULL, PRIMARY KEY (part, key)"
    connection.run(f"CREATE TABLE IF NOT EXISTS {memory_table(stream)} ({columns}) WITHOUT ROWID")


def remember(connection: Connection, changes: Mapping[str, pl.DataFrame]) -> None:
    """Writes what epochs have changed."""
    for stream, rows in changes.items():
        if not rows.height:
            continue
        create(connection, stream)
        changed = rows.filter(pl.col("value").is_not_null()).sort("part", "key")
        conflict = "ON CONFLICT (part, key) DO UPDATE SET value = excluded.value"
        connection.put(memory_table(stream), changed, columns=list(REMEMBERED), conflict=conflict)
        gone = rows.filter(pl.col("value").is_null()).select("part", "key")
        if gone.height:
            connection.remove(memory_table(stream), "part = ?1 AND key = ?2", gone)


def recall(connection: Connection, stream: str, keys: pl.DataFrame | None, part: str | None) -> pl.DataFrame:
    """What is remembered: of these parts and keys, else of a part, else all of it."""
    table = memory_table(stream)
    create(connection, stream)
    if keys is not None:
        sql = f"SELECT part, key, value FROM {table} WHERE part = ?1 AND key = ?2"
        remembered = connection.rows_of(sql, keys.select("part", "key").unique())
    elif part is not None:
        remembered = connection.rows(f"SELECT part, key, value FROM {table} WHERE part = ?1", [part])
    else:
        remembered = connection.rows(f"SELECT part, key, value FROM {table}")
    if not remembered.height:
        return pl.DataFrame(schema=REMEMBERED)
    return remembered.select(pl.col(name).cast(kind) for name, kind in REMEMBERED.items())


def forget(connection: Connection, stream: str) -> None:
    """A stream is given up."""
    connection.run(f"DROP TABLE IF EXISTS {memory_table(stream)}")
