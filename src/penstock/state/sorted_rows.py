"""The rows of one kind of state in segments: of each row the version of the newest run holds.

A row is found by one binary search per segment and window. Hashes may collide, so keys are compared too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from penstock.kernel.hashing import Array, hashes
from penstock.kernel.plan import END, START, nothing
from penstock.model.time import BEGINNING, Instant
from penstock.state.layout import DUE, GONE, TOUCHED, Layout
from penstock.state.mapping import mapped
from penstock.state.segment import ALL, HashRange, MappedSegment, Segment

#: A span of window ends: after the first instant, up to the second.
Span = tuple[Instant, Instant]
_AGE = "__age"


@dataclass(frozen=True)
class ScanMark:
    """Up to which processing time the rows of runs have been looked at: those that were due have newer versions."""

    run: int = -1
    now: Instant = BEGINNING

    def after(self, segment: Segment) -> Instant:
        """Rows that were due at this time or before need no look."""
        return self.now if segment.run <= self.run else -(1 << 63)


#: Before the first look.
NOTHING_LOOKED_AT: Final = ScanMark()


class SortedRows:
    """Rows of one kind, in the segments that a commit lists. Only those of `shard`."""

    def __init__(self, root: str, layout: Layout, segments: Sequence[Segment], shard: HashRange = ALL) -> None:
        self.layout, self.shard, self._root = layout, shard, root
        own = [segment for segment in segments if segment.kind == layout.kind and shard.meets(segment)]
        self.segments = sorted(own, key=lambda segment: -segment.run)  # the newest first

    def mapped(self) -> Iterator[MappedSegment]:
        """The segments, the newest first."""
        return (mapped(self._root, segment) for segment in self.segments)

    # by identity

    def lookup(self, wanted: pl.DataFrame) -> pl.DataFrame:
        """The rows with these identities, each named once."""
        if not wanted.height or not self.segments:
            return nothing(self.layout.schema)
        hashed, open_, left = self._hashes(wanted), np.ones(wanted.height, bool), wanted.height
        groups, frames = self._groups(wanted, hashed), []
        for segment in self.mapped():
            positions, numbers = self._candidates(segment, groups, hashed, open_)
            if not len(positions):
                continue
            rows = segment.take(positions, [*self.layout.schema, GONE])
            same = self._same(rows, wanted[numbers], len(numbers))
            if not same.all():
                rows, numbers = rows.filter(same), numbers[same.to_numpy()]
            frames.append(rows)
            open_[numbers] = False
            left -= len(numbers)
            if not left:
                break
        return self._live(frames)

    def _groups(self, wanted: pl.DataFrame, hashed: Array) -> list[tuple[Instant, Instant, Array]]:
        """The numbers of wanted rows by window, in the order of their hashes: neighbours lie on the same pages."""
        groups = _by_window(wanted) if self.layout.by_window else [(0, 0, np.arange(wanted.height))]
        return [(end, start, numbers[np.argsort(hashed[numbers], kind="stable")]) for end, start, numbers in groups]

    def _candidates(
        self, segment: MappedSegment, groups: Sequence[tuple[Instant, Instant, Array]], hashed: Array, open_: Array
    ) -> tuple[Array, Array]:
        """Positions of rows with the hashes of open ones (and their windows); and the number of each wanted row."""
        positions, row_numbers = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        low, high = segment.bounds
        for end, start, numbers in groups:
            place = segment.window(end, start) if self.layout.by_window else (0, segment.batch.num_rows)
            if place is None:
                continue
            own = hashed[numbers]
            numbers = numbers[np.searchsorted(own, low) : np.searchsorted(own, high, side="right")]
            numbers = numbers[open_[numbers]]
            at, of = _sorted_matches(segment.hashes[place[0] : place[1]], hashed[numbers])
            positions.append(at + place[0])
            row_numbers.append(numbers[of])
        return np.concatenate(positions), np.concatenate(row_numbers)

    def _hashes(self, rows: pl.DataFrame) -> Array:
        keys = self.layout.keys
        return hashes(rows.select(keys)) if keys else np.zeros(rows.height, np.uint64)

    def _same(self, rows: pl.DataFrame, others: pl.DataFrame, count: int) -> pl.Series:
        """Which of `count` rows have the identity of the others beside them."""
        same = pl.repeat(True, count, eager=True)
        for name in self.layout.identity:
            same = same & rows[name].eq_missing(others[name].cast(rows[name].dtype))
        return same

    # by key

    def of(self, keys: pl.DataFrame, after: Instant | None = None) -> pl.DataFrame:
        """All rows of these keys; without key columns all rows. With `after`, those of windows that end after it."""
        if not self.layout.keys:
            return self.all()
        hashed, frames = hashes(keys.select(self.layout.keys)), []
        for age, segment in enumerate(self.mapped()):
            for end, _, first, last in segment.windows():
                if after is not None and end <= after:
                    continue
                positions, _ = _matches(segment.hashes[first:last], hashed, first)
                if len(positions):
                    frames.append(self._aged(segment.take(positions, [*self.layout.schema, GONE]), age))
        rows = self._newest(frames)
        return rows.join(keys, on=list(self.layout.keys), how="semi", nulls_equal=True) if rows.height else rows

    def near(self, keys: pl.DataFrame, after: Instant) -> pl.DataFrame:
        """The rows with the hashes of these keys, of windows that end after an instant. No row was ever replaced."""
        hashed, frames = np.sort(hashes(keys.select(self.layout.keys))), []
        for segment in self.mapped():
            matches = [
                positions + first
                for end, _, first, last in segment.windows()
                if end > after
                for positions, _ in [_sorted_matches(segment.hashes[first:last], hashed)]
                if len(positions)
            ]
            if matches:
                frames.append(segment.take(np.concatenate(matches), list(self.layout.schema)))
        return pl.concat(frames) if frames else nothing(self.layout.schema)

    # by time

    def ending(self, spans: Sequence[Span]) -> pl.DataFrame:
        """The rows of windows that end within one of these spans."""
        frames = []
        for age, segment in enumerate(self.mapped()):
            if not any(low < segment.segment.last_end for low, _ in spans):
                continue
            if self.layout.by_window:
                for end, _, first, last in segment.windows():
                    if any(low < end <= high for low, high in spans):
                        first, last = segment.within(first, last, self.shard)
                        frames.append(self._aged(segment.slice(first, last, [*self.layout.schema, GONE]), age))
                continue
            first, last = segment.within(0, segment.batch.num_rows, self.shard)
            ends = segment.batch.column(END).to_numpy(zero_copy_only=False)[first:last]
            inside = np.zeros(len(ends), bool)
            for low, high in spans:
                inside |= (ends > low) & (ends <= high)
            positions = np.flatnonzero(inside) + first
            if len(positions):
                frames.append(self._aged(segment.take(positions, [*self.layout.schema, GONE]), age))
        return self._newest(frames)

    def count_ending(self, segment: MappedSegment, spans: Sequence[Span]) -> int:
        """The most rows of a segment that windows can have which end within one of these spans."""
        listed = segment.segment
        if not self.layout.by_window:
            touched = any(low < listed.last_end and listed.first_end <= high for low, high in spans)
            return listed.rows if touched else 0
        count = 0
        for low, high in spans:
            first, last = np.searchsorted(segment.ends, [low, high], side="right")
            count += int(segment.firsts[last] - segment.firsts[first])
        return count

    def due(self, now: Instant, looked: ScanMark) -> pl.DataFrame:
        """The rows that are due by a processing time. Versions that newer ones replaced are left out."""
        after = {segment: looked.after(segment) for segment in self.segments if segment.due <= now}
        return self._timed(DUE, after, now)

    def touched(self, after: Instant, before: Instant) -> pl.DataFrame:
        """The rows that were touched last within a span of time: from its begin on, before its end."""
        return self._timed(TOUCHED, dict.fromkeys(self.segments, after - 1), before - 1)

    def due_by(self, column: str, through: Instant, after: Mapping[Segment, Instant]) -> pl.DataFrame:
        """The rows with a time in a column up to one. Those of a segment up to `after` have been looked at."""
        return self._timed(column, after, through)

    def earliest(self, column: str, after: Instant, at_once: int = 256) -> Instant | None:
        """The smallest time in a column, after one, of rows that hold."""
        while True:
            bound, places = None, []
            for segment in self.mapped():
                values, positions = segment.times(column)
                first = int(np.searchsorted(values, after, side="right"))
                chosen = positions[first : first + at_once]
                if not len(chosen):
                    continue
                if first + at_once < len(values):
                    last = int(values[first + at_once - 1])
                    bound = last if bound is None else min(bound, last)
                places.append(segment.take(np.sort(chosen), self.layout.identity))
            if not places:
                return None
            rows = self.lookup(pl.concat(places).unique()).filter(pl.col(column) > after)
            smallest = rows[column].min()
            if isinstance(smallest, int) and (bound is None or smallest <= bound):
                return smallest
            if bound is None:
                return None
            after = bound

    def _timed(self, column: str, after: Mapping[Segment, Instant], through: Instant) -> pl.DataFrame:
        """The rows with a time in a column after one, up to another."""
        places = []
        for segment in self.mapped():
            if segment.segment in after:
                positions = segment.between(column, after[segment.segment], through)
                hashed = segment.hashes[positions]
                inside = (hashed >= np.uint64(self.shard.low)) & (hashed <= np.uint64(self.shard.high))
                if inside.any():
                    places.append(segment.take(np.sort(positions[inside]), self.layout.identity))
        if not places:
            return nothing(self.layout.schema)
        return self.lookup(pl.concat(places).unique()).filter(pl.col(column) <= through)

    # all

    def all(self, columns: Sequence[str] | None = None) -> pl.DataFrame:
        """All rows."""
        frames = list(self.current(columns))
        return pl.concat(frames) if frames else nothing(self.layout.schema)

    def current(self, columns: Sequence[str] | None = None, gone: bool = False) -> Iterator[pl.DataFrame]:
        """The rows that hold, segment by segment; with those that are deleted, if asked for."""
        columns = list(self.layout.schema) if columns is None else list(columns)
        newer: list[MappedSegment] = []
        for segment in self.mapped():
            parts = [part for part in self._parts(segment) if part[2] < part[3]]
            if not parts:
                continue
            first, last = parts[0][2], parts[-1][3]
            holds = np.zeros(last - first, bool)
            for _, _, begin, end in parts:
                holds[begin - first : end - first] = True
            for other in newer:
                self._mark_replaced(segment, other, holds, first)
            newer.append(segment)
            if not gone and segment.segment.gone:
                holds &= ~segment.batch.column(GONE).slice(first, last - first).to_numpy(zero_copy_only=False)
            if holds.all():
                yield segment.slice(first, last, columns)
            elif holds.any():
                yield segment.take(np.flatnonzero(holds) + first, columns)

    def _parts(self, segment: MappedSegment) -> list[tuple[Instant, Instant, int, int]]:
        """The windows of a segment, with the positions that the shard has of each."""
        return [(end, start, *segment.within(first, last, self.shard)) for end, start, first, last in segment.windows()]

    def _mark_replaced(self, segment: MappedSegment, newer: MappedSegment, holds: Array, offset: int) -> None:
        """Notes which rows of a segment, from a position on, have a newer version in another."""
        pairs = []
        for end, start, first, last in self._parts(newer):
            place = segment.window(end, start) if self.layout.by_window else (0, segment.batch.num_rows)
            if place is not None and first < last:
                own, theirs = _matches(segment.hashes[place[0] : place[1]], newer.hashes[first:last], place[0])
                pairs += [(own, theirs + first)] if len(own) else []
        if pairs:
            own, theirs = (np.concatenate(part) for part in zip(*pairs, strict=True))
            identity = self.layout.identity
            same = self._same(segment.take(own, identity), newer.take(theirs, identity), len(own))
            holds[own[same.to_numpy()] - offset] = False

    # the newest version

    def _aged(self, rows: pl.DataFrame, age: int) -> pl.DataFrame:
        return rows.with_columns(pl.lit(age, pl.Int32).alias(_AGE))

    def _newest(self, frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
        """Of versions of rows, from the newest segment on, the first of each."""
        if not frames:
            return nothing(self.layout.schema)
        if len({frame[_AGE][0] for frame in frames if frame.height}) > 1:
            rows = pl.concat(frames)
            newest = rows.select(*self.layout.identity, _AGE, pl.int_range(pl.len()).alias("__row"))
            newest = newest.unique(self.layout.identity, keep="first", maintain_order=True)
            return self._live([rows[newest["__row"]]])
        return self._live(frames)

    def _live(self, frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
        if not frames:
            return nothing(self.layout.schema)
        rows = pl.concat([frame.select(*self.layout.schema, GONE) for frame in frames])
        rows = rows.filter(~pl.col(GONE)) if rows[GONE].any() else rows
        return rows.select(*self.layout.schema).cast(dict(self.layout.schema))  # type: ignore[arg-type]


def _by_window(rows: pl.DataFrame) -> Iterator[tuple[Instant, Instant, Array]]:
    """The numbers of rows by their window."""
    ends, starts = rows[END].to_numpy(), rows[START].to_numpy()
    if len(ends) and ends.min() == ends.max() and starts.min() == starts.max():
        yield int(ends[0]), int(starts[0]), np.arange(len(ends))
        return
    order = np.lexsort((starts, ends))
    ends, starts = ends[order], starts[order]
    first = np.flatnonzero(np.append(True, (ends[1:] != ends[:-1]) | (starts[1:] != starts[:-1])))
    for begin, end in zip(first, np.append(first[1:], len(order)), strict=True):
        yield int(ends[begin]), int(starts[begin]), order[begin:end]


def _matches(sorted_hashes: Array, wanted: Array, offset: int) -> tuple[Array, Array]:
    """Positions at which wanted hashes stand among sorted ones, plus an offset; and the number of each wanted one."""
    order = np.argsort(wanted, kind="stable")
    positions, numbers = _sorted_matches(sorted_hashes, wanted[order])
    return positions + offset, order[numbers]


def _sorted_matches(sorted_hashes: Array, wanted: Array) -> tuple[Array, Array]:
    """The same for wanted hashes that are sorted too."""
    none = np.zeros(0, np.int64)
    if not len(sorted_hashes) or not len(wanted):
        return none, none
    begin = np.searchsorted(sorted_hashes, wanted)
    hit = begin < len(sorted_hashes)
    hit[hit] = sorted_hashes[begin[hit]] == wanted[hit]
    numbers, begin = np.flatnonzero(hit), begin[hit]
    if not len(begin):
        return none, none
    following = np.minimum(begin + 1, len(sorted_hashes) - 1)
    if not ((following > begin) & (sorted_hashes[following] == wanted[numbers])).any():
        return begin, numbers
    counts = np.searchsorted(sorted_hashes, wanted[numbers], side="right") - begin
    steps = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.repeat(begin, counts) + steps, np.repeat(numbers, counts)
