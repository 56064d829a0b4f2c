"""Compaction: several runs become one, so that a lookup stays short and replaced rows do not pile up.

If what lies above the oldest run has as many rows as that run, all runs are merged; else four neighbours of about the
same size, with smaller ones between them. So a row is rewritten about log4 of the number of epochs times, there are at
most three runs of a size, and the files hold about twice the rows that count.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import log

import polars as pl

from penstock.kernel.plan import END
from penstock.model.time import BEGINNING, Instant
from penstock.state.layout import FINAL, HASH, Kind, Layout
from penstock.state.mapping import mapped
from penstock.state.segment import HashRange, Segment, SegmentFile, encoded, shards
from penstock.state.sorted_rows import SortedRows

#: Runs that are merged at once, and the rows of a run of the lowest tier.
FANOUT, SMALLEST = 4, 20_000
#: About the most rows in memory at a time.
PIECE = 250_000


def runs_to_merge(segments: Sequence[Segment], fanout: int = FANOUT, smallest: int = SMALLEST) -> list[Segment]:
    """The segments of one kind that should become one run: neighbours in age. None if all is well."""
    sizes: dict[int, int] = {}
    for segment in segments:
        sizes[segment.run] = sizes.get(segment.run, 0) + segment.rows
    runs = sorted(sizes)
    if len(runs) < 2:
        return []
    above = sum(sizes[run] for run in runs[1:])
    chosen: list[int] = []
    if above >= max(sizes[runs[0]], smallest):
        chosen = runs
    else:
        tiers = [_tier(sizes[run], fanout, smallest) for run in runs]
        for tier in sorted(set(tiers)):
            chosen = _neighbours(runs, tiers, tier, fanout)
            if chosen:
                break
    return [segment for segment in segments if segment.run in chosen]


def _neighbours(runs: Sequence[int], tiers: Sequence[int], tier: int, fanout: int) -> list[int]:
    """Runs side by side of a tier, with smaller ones between them, if there are enough of that tier."""
    block: list[int] = []
    for run, own in zip([*runs, -1], [*tiers, tier + 1], strict=True):
        if own <= tier:
            block.append(run)
            continue
        if sum(tiers[runs.index(one)] == tier for one in block) >= fanout:
            return block
        block = []
    return []


def _tier(rows: int, fanout: int, smallest: int) -> int:
    return 0 if rows <= smallest else 1 + int(log(rows / smallest, fanout))


@dataclass(frozen=True)
class Merge:
    """Segments of one kind that become one run. It travels to the tasks that do it.

    `keep`: rows for which it does not hold go. Like deleted rows, they go only if nothing older is left (`is_oldest`).
    """

    root: str
    layout: Layout
    segments: tuple[Segment, ...]
    is_oldest: bool
    keep: pl.Expr | None = None

    def write(self, file: SegmentFile, shards: Sequence[HashRange]) -> None:
        """Writes the rows of some shards."""
        for shard in shards:
            rows = SortedRows(self.root, self.layout, self.segments, shard)
            columns = list(dict.fromkeys(name for one in rows.mapped() for name in one.columns if name != HASH))
            frames = list(rows.current(columns, gone=not self.is_oldest))
            if frames:
                frame = pl.concat(frames)
                frame = frame if self.keep is None or not self.is_oldest else frame.filter(self.keep)
                file.add(encoded(self.segments[0].owner, self.layout, self.run, frame))

    @property
    def run(self) -> int:
        """The age of the run that they become: that of the newest."""
        return max(segment.run for segment in self.segments)

    @property
    def rows(self) -> int:
        return sum(segment.rows for segment in self.segments)

    @property
    def pieces(self) -> list[HashRange]:
        """Shards that are small enough to be merged in memory."""
        return pieces(self.segments)

    def check(self, task: int = 0, tasks: int = 1) -> None:
        """Refuses damaged segments: a merge would make their rows look sound. Each task checks some."""
        for segment in self.segments[task::tasks]:
            mapped(self.root, segment).check()


def merges(
    root: str, layouts: Mapping[Kind, Layout], segments: Sequence[Segment], keep: pl.Expr | None = None,
    fanout: int = FANOUT, smallest: int = SMALLEST,
) -> Iterator[Merge]:  # fmt: skip
    """What should be merged of one owner, kind by kind."""
    for kind, layout in layouts.items():
        own = [segment for segment in segments if segment.kind == kind]
        chosen = runs_to_merge(own, fanout, smallest)
        if chosen:
            is_oldest = min(segment.run for segment in chosen) == min(segment.run for segment in own)
            applies = keep if kind in ("rows", "final", "ids", "left", "right") else None
            yield Merge(root, layout, tuple(chosen), is_oldest, applies)


def pieces(segments: Sequence[Segment], largest: int = PIECE) -> list[HashRange]:
    """Shards that are small enough to be merged in memory."""
    rows = sum(segment.rows for segment in segments)
    return shards(max(1, -(-rows // largest)))


def kept_windows(before: Instant) -> pl.Expr | None:
    """Which rows stay where finished windows go once they ended before an instant."""
    return None if before <= BEGINNING else ~pl.col(FINAL) | (pl.col(END) >= before)
