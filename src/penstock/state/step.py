"""One commit of one view whose state is in segments: the step of each shard, with the file that it writes.

Shards do not know of each other: what a step does to a key depends on the key's own rows alone. So shards may be
stepped in one process or in many, and give the same rows and panes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import polars as pl

from penstock.kernel.fire import Time, pane_schema, percents
from penstock.kernel.hashing import Array, hashes
from penstock.kernel.plan import Plan, nothing
from penstock.kernel.reduce import late_schema
from penstock.kernel.step import step
from penstock.model.time import Instant
from penstock.state.pane_file import NOTHING_FILED, FiledPanes
from penstock.state.segment import ALL, EncodedRows, HashRange, Segment, SegmentFile, shards
from penstock.state.segment_state import SegmentState, encoded_change
from penstock.state.sorted_rows import NOTHING_LOOKED_AT, ScanMark


@dataclass(frozen=True)
class FixedPercentiles:
    """The percentile watermarks that a trigger asks for, as values: they travel."""

    at: Mapping[float, Instant]

    def __call__(self, percent: float) -> Instant:
        return self.at[percent]


def fixed_time(plan: Plan, time: Time) -> Time:
    """A commit's time as values."""
    return replace(
        time, reached=FixedPercentiles({percent: time.reached(percent) for percent in percents(plan.view.firing)})
    )


@dataclass(frozen=True)
class ShardStep:
    """All that a step must know, besides the deltas. It travels to the task that does it."""

    owner: str
    plan: Plan
    root: str
    segments: tuple[Segment, ...]
    closed: Instant
    run: int
    time: Time
    shard: HashRange = ALL
    looked: ScanMark = NOTHING_LOOKED_AT

    def within(self, shard: HashRange) -> ShardStep:
        """The same step for a part of the keys."""
        return replace(self, shard=shard, segments=tuple(one for one in self.segments if shard.meets(one)))

    def state(self) -> SegmentState:
        """The rows of the shard, as the last commit left them."""
        segments, closed, looked = self.segments, self.closed, self.looked
        return SegmentState(self.plan, self.root, segments, closed=closed, shard=self.shard, looked=looked)

    def __call__(self, deltas: Sequence[pl.DataFrame]) -> SteppedShard:
        """Steps the shard. All deltas are of its keys."""
        change = step(self.plan, deltas, self.state(), self.time)
        return SteppedShard(change.panes, change.late, encoded_change(self.owner, self.plan, change, self.run))


@dataclass(frozen=True)
class SteppedShard:
    """What the step of a shard gives: panes, late rows that only the merge could tell, and segments to write."""

    panes: pl.DataFrame
    late: pl.DataFrame
    encoded: list[EncodedRows]


@dataclass(frozen=True)
class SegmentChange:
    """What a commit does to a view whose state is in segments: panes, late rows, and the segments that it adds.

    Panes are here, or in files where they are many.
    """

    panes: pl.DataFrame
    late: pl.DataFrame
    added: tuple[Segment, ...] = ()
    filed: FiledPanes = NOTHING_FILED

    @classmethod
    def empty(cls, plan: Plan) -> SegmentChange:
        """Nothing changes."""
        return cls(nothing(pane_schema(plan)), nothing(late_schema()))


class SegmentChanges:
    """Collects what the steps of shards give, and writes one file for all of them.

    Used with `with`, it leaves no file behind unless `change` was called.
    """

    def __init__(self, root: str, name: str) -> None:
        self._file = SegmentFile(root, f"{name}.arrow")
        self._panes: list[pl.DataFrame] = []
        self._late: list[pl.DataFrame] = []

    def __enter__(self) -> SegmentChanges:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.__exit__(*error)

    def add(self, stepped: SteppedShard) -> None:
        """The result of one shard."""
        self._panes.append(stepped.panes)
        self._late.append(stepped.late)
        for rows in stepped.encoded:
            self._file.add(rows)

    def change(self, plan: Plan) -> SegmentChange:
        """All of it. The file is on disk."""
        return SegmentChange(ordered(plan, self._panes), pl.concat(self._late), tuple(self._file.close()))


def ordered(plan: Plan, panes: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Panes of several shards in the order that one step would give them: by key."""
    if len(panes) == 1:
        return panes[0]
    together = pl.concat(panes)
    return together.sort(plan.keys, maintain_order=True) if plan.keys and together.height else together


def steps(work: ShardStep, deltas: Sequence[pl.DataFrame], count: int) -> Iterator[SteppedShard]:
    """The steps of several shards, one after the other in this process."""
    parts = [parted(work.plan, frame, count) for frame in deltas]
    for number, shard in enumerate(shards(count)):
        own = [part[number] for part in parts if part[number].height]
        yield work.within(shard)(own)


def parted(plan: Plan, rows: pl.DataFrame, count: int) -> list[pl.DataFrame]:
    """Rows by the shard of their key."""
    if count == 1 or not plan.keys:
        return [rows, *(rows.clear() for _ in range(count - 1))]
    return cut(rows, hashes(rows.select(plan.keys)), count)


def cut(rows: pl.DataFrame, hashed: Array, count: int) -> list[pl.DataFrame]:
    """Rows by the shard of their hash."""
    number = shard_numbers(hashed, count)
    order = np.argsort(number, kind="stable")
    bounds = np.searchsorted(number[order], np.arange(count + 1))
    rows = rows[order]
    return [rows[int(low) : int(high)] for low, high in pairwise(bounds)]


def shard_numbers(hashed: Array, count: int) -> Array:
    """The number of the shard that each hash lies in."""
    lows = np.array([shard.low for shard in shards(count)], np.uint64)
    return np.searchsorted(lows, hashed, side="right") - 1
