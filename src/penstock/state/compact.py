"""Compaction: several runs become one, so that a lookup stays short and replaced rows do not pile up.

Which runs: if what lies above the oldest run has as many rows as that run, all of them; else neighbours of about the same
size. So a row is rewritten about log4 of the number of epochs times, and the files hold at most about three times the
rows that count.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import log

import polars as pl

from penstock.model.time import BEGINNING, Instant
from penstock.state.layout import FINAL, Layout
from penstock.kernel.plan import END
from penstock.state.segment import EncodedRows, HashRange, Segment, SegmentFile, encoded, mapped, shards
from penstock.state.sorted_rows import SortedRows

#: Runs that are merged at once, and the rows of a run of the lowest tier.
FANOUT, SMALLEST = 4, 20_000
#: At most about so many rows are in memory at a time.
PIECE = 500_000


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
        for first in range(len(runs) - fanout + 1):
            last = first
            while last < len(runs) and tiers[last] <= tiers[first]:
                last += 1
            if last - first >= fanout:
                chosen = runs[first:last]
                break
    return [segment for segment in segments if segment.run in chosen]


def _tier(rows: int, fanout: int, smallest: int) -> int:
    return 0 if rows <= smallest else 1 + int(log(rows / smallest, fanout))


def compacted(
    root: str,
    layout: Layout,
    merged: Sequence[Segment],
    file: SegmentFile,
    *,
    is_oldest: bool,
    shard: HashRange | None = None,
    keep: pl.Expr | None = None,
) -> None:
    """Writes segments as one run. Deleted rows and what `keep` does not hold for go if nothing older is left."""
    for part in [shard] if shard is not None else pieces(merged):
        rows = SortedRows(root, layout, merged, part)
        columns = list(dict.fromkeys(name for segment in rows.mapped() for name in segment.columns))[1:]
        for segment in rows.segments:
            mapped(root, segment).check()
        frames = list(rows.current(columns, gone=not is_oldest))
        if frames:
            frame = pl.concat(frames)
            frame = frame if keep is None or not is_oldest else frame.filter(keep)
            file.add(_again(merged, layout, frame))


def _again(merged: Sequence[Segment], layout: Layout, frame: pl.DataFrame) -> EncodedRows:
    return encoded(merged[0].owner, layout, max(segment.run for segment in merged), frame)


def pieces(segments: Sequence[Segment], largest: int = PIECE) -> list[HashRange]:
    """Shards that are small enough to be merged in memory."""
    rows = sum(segment.rows for segment in segments)
    return shards(max(1, -(-rows // largest)))


def kept_windows(before: Instant) -> pl.Expr | None:
    """Which rows stay where finished windows go once they ended before an instant."""
    return None if before <= BEGINNING else ~pl.col(FINAL) | (pl.col(END) >= before)


def parts_of(segments: Sequence[Segment]) -> Iterator[list[Segment]]:
    """The segments of each kind of one owner."""
    for kind in dict.fromkeys(segment.kind for segment in segments):
        yield [segment for segment in segments if segment.kind == kind]
