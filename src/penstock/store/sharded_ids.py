"""The known ids of a stream in segments: what the store lists of them, and how they get there."""

from __future__ import annotations

import uuid
from typing import Final

import polars as pl

from penstock.state.ids import LAYOUT, ShardedIds, owner_of
from penstock.state.segment import SegmentFile, encoded
from penstock.store.connection import Connection
from penstock.store.segments import add_sharding, list_segments, segments_of, shardings
from penstock.store.tables import ids_table

#: The number of ids moved at a time.
_ROWS: Final = 500_000


def loaded_ids(connection: Connection, stream: str, root: str) -> ShardedIds | None:
    """The known ids of a stream; None if they are in a table."""
    sharding = shardings(connection).get(owner_of(stream))
    if sharding is None:
        return None
    segments = segments_of(connection, owner_of(stream))
    return ShardedIds(stream, root, sharding.shards, segments, sharding.expired)


def move_ids(connection: Connection, stream: str, root: str, shards: int, token: int) -> ShardedIds:
    """Moves ids out of their table, in the transaction of the caller."""
    owner, table, last = owner_of(stream), ids_table(stream), b""
    with SegmentFile(root, f"{token}-moved-{uuid.uuid4().hex}.arrow") as file:
        while True:
            sql = f"SELECT id, at FROM {table} WHERE id > ?1 ORDER BY id LIMIT {_ROWS}"
            rows = connection.rows(sql, [last])
            if not rows.height:
                break
            last = rows["id"][-1]
            ids = rows.select(pl.col("id").cast(pl.Binary).alias("__id"), pl.col("at").cast(pl.Int64).alias("__at"))
            file.add(encoded(owner, LAYOUT, 1, ids))
        segments = file.close()
    add_sharding(connection, owner, shards)
    list_segments(connection, segments)
    connection.run(f"DELETE FROM {table}")
    return ShardedIds(stream, root, shards, tuple(segments))
