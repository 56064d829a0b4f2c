"""The known ids of streams: in a table of the store, or in segments."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import polars as pl

from penstock.kernel.keys import encoded
from penstock.state.ids import IdChange, owner_of
from penstock.state.ids import ShardedIds as ShardedIds
from penstock.state.segment import Segment
from penstock.store.connection import Connection
from penstock.store.segments import remove_sharding
from penstock.store.sharded_ids import loaded_ids, move_ids
from penstock.store.tables import create_ids, ids_table
from penstock.store.view_states import Access


class KnownIds:
    """Looks ids up, and moves them into segments."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._sharded: dict[str, ShardedIds | None] = {}

    def moment(self) -> dict[str, ShardedIds | None]:
        """What is known now, to go back to."""
        return dict(self._sharded)

    def go_back(self, moment: dict[str, ShardedIds | None]) -> None:
        """A transaction has failed: what was known before it is known again."""
        self._sharded = moment

    def lookup(self, stream: str, candidates: pl.DataFrame) -> pl.DataFrame:
        """Which of these ids (column `__id`) are known: `__id`, `__at`. They are in the store's own table."""
        wanted = candidates.select("__id").with_columns(encoded(candidates.select("__id")).alias("id"))
        with self._access.read() as connection:
            for statement in create_ids(stream):  # a stream without a view has none yet
                connection.run(statement)
            known = connection.rows_of(f"SELECT id, at FROM {ids_table(stream)} WHERE id = ?1", wanted.select("id"))
        if not known.height:
            return wanted.select("__id", pl.lit(None, pl.Int64).alias("__at")).clear()
        known = known.select("id", pl.col("at").cast(pl.Int64).alias("__at"))
        return wanted.join(known, on="id").select("__id", "__at")

    def count(self, stream: str, most: int) -> int:
        """How many ids are known in the store's own table, counted up to `most`."""
        with self._access.read() as connection:
            if f"__ids_{stream}" not in connection.tables():
                return 0
            sql = f"SELECT count(*) FROM (SELECT 1 FROM {ids_table(stream)} LIMIT {most}) known"
            return int(connection.rows(sql).item())

    def sharded(self, stream: str) -> ShardedIds | None:
        """The known ids of a stream, if they are in segments."""
        if stream not in self._sharded:
            with self._access.read() as connection:
                self._sharded[stream] = loaded_ids(connection, stream, self._access.root)
        return self._sharded[stream]

    def shard(self, stream: str, shards: int) -> None:
        """Moves the known ids of a stream into segments."""
        access = self._access
        with access.exclusive():
            with access.transaction() as connection:
                moved = move_ids(connection, stream, access.root, shards, access.token())
            self._sharded[stream] = moved

    def sharded_streams(self) -> list[str]:
        """The streams whose known ids are in segments."""
        with self._access.exclusive():
            return sorted(stream for stream, ids in self._sharded.items() if ids is not None)

    def forget(self, connection: Connection, stream: str) -> None:
        """A stream is gone, in the transaction of the caller."""
        (now,) = connection.rows("SELECT coalesce(max(now), 0) FROM __commits").row(0)
        remove_sharding(connection, owner_of(stream), now)
        self._sharded.pop(stream, None)

    def replaced(self, owner: str, old: Collection[Segment], new: Sequence[Segment]) -> None:
        """The store lists other segments of a stream's ids."""
        for stream, ids in self._sharded.items():
            if ids is not None and owner_of(stream) == owner:
                self._sharded[stream] = ids.changed(new, tuple(old))

    def committed(self, changes: Mapping[str, IdChange]) -> None:
        """A commit is written."""
        for stream, change in changes.items():
            ids = self._sharded[stream]
            if ids is not None:
                expired = ids.expired if change.expired is None else max(ids.expired, change.expired)
                self._sharded[stream] = replace(ids.changed(change.added), expired=expired)
