"""De-duplication with the known ids in segments: only ids and positions go to the shards, and verdicts come back.

An id is its encoded bytes, whatever its type. Ids that are older than the horizon count as forgotten. They stay in
segments until these are merged.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import polars as pl

from penstock.kernel.deduplicate import Verdict, deduplicate
from penstock.kernel.hashing import hashes
from penstock.kernel.keys import encoded as encoded_keys
from penstock.kernel.plan import PLACE, nothing
from penstock.model.time import BEGINNING, Instant
from penstock.state.layout import ids_layout
from penstock.state.segment import ALL, EncodedRows, HashRange, Segment, encoded
from penstock.state.sharded import ShardedState
from penstock.state.sorted_rows import SortedRows
from penstock.state.step import cut

LAYOUT: Final = ids_layout(pl.Binary())
#: Ids with the time and the position of their rows.
SCHEMA: Final = {"__id": pl.Binary(), "__at": pl.Int64(), "__partition": pl.Int32(), "__offset": pl.Int64()}
_OWNER: Final = "__ids_"


def owner_of(stream: str) -> str:
    """The name under which the ids of a stream are listed. No view has such a name."""
    return _OWNER + stream


@dataclass(frozen=True)
class ShardedIds(ShardedState):
    """The known ids of a stream, as the last commit left them. Those of rows before `expired` are forgotten."""


@dataclass(frozen=True)
class IdStep:
    """Judges the ids of an epoch, of one shard. It travels to the task that does so."""

    ids: ShardedIds
    watermark: Instant
    horizon: int
    shard: HashRange = ALL

    def within(self, shard: HashRange) -> IdStep:
        """The same for a part of the ids."""
        own = tuple(segment for segment in self.ids.segments if shard.meets(segment))
        return replace(self, shard=shard, ids=replace(self.ids, segments=own))

    def __call__(self, rows: pl.DataFrame, run: int) -> tuple[Verdict, EncodedRows]:
        """The verdict on rows (`SCHEMA`), all of this shard; and the new ids as a segment."""
        known = SortedRows(self.ids.root, LAYOUT, self.ids.segments, self.shard).lookup(rows.select("__id").unique())
        known = known.filter(pl.col("__at") >= self.ids.expired)
        verdict = deduplicate(rows, known, self.watermark, self.horizon)
        return verdict, encoded(owner_of(self.ids.name), LAYOUT, run, verdict.new_ids)


@dataclass(frozen=True)
class IdChange:
    """What an epoch adds to the known ids of a stream, and before which time they are forgotten from here on."""

    added: tuple[Segment, ...] = ()
    expired: Instant | None = None


def as_bytes(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows of any type of ids, with the ids as bytes."""
    named = rows.filter(pl.col("__id").is_not_null())
    if not named.height:
        return nothing(SCHEMA)
    return named.select(encoded_keys(named.select("__id")).alias("__id"), "__at", *PLACE).cast(SCHEMA)  # type: ignore[arg-type]


def parted_ids(rows: pl.DataFrame, count: int) -> list[pl.DataFrame]:
    """Rows by the shard of their id."""
    return cut(rows, hashes(rows.select("__id")), count)


def kept_ids(expired: Instant) -> pl.Expr | None:
    """Which ids stay when segments are merged."""
    return None if expired <= BEGINNING else pl.col("__at") >= expired
