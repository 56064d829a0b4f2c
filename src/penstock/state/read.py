"""Reads a view whose state is in segments: the rows of one commit that people see, by key or in their order, in pieces.

All segments of one kind have the same order: end and start of the window and hash of the key, or the hash alone. So
they are read side by side in pieces, and of each row the version of the newest run counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import polars as pl
import pyarrow as pa

from penstock.kernel.columns import END, START
from penstock.kernel.hashing import Array
from penstock.kernel.keys import canonical
from penstock.model.time import BEGINNING, Instant
from penstock.model.time import END as FOREVER
from penstock.state.layout import FINAL, GONE, PRESENTED, VISIBLE
from penstock.state.ranges import Ranges, hash_positions
from penstock.state.segment import MappedSegment
from penstock.state.selection import Selection

#: The most rows of each segment in a piece.
PIECE: Final = 1 << 16


class Place(NamedTuple):
    """Where a row lies: of rows that are sorted by the hash alone, the window's bounds are zero."""

    end: Instant
    start: Instant
    hash: int


@dataclass(frozen=True)
class Rows:
    """Some rows of a segment, by their positions."""

    segment: MappedSegment
    positions: Array

    def __len__(self) -> int:
        return len(self.positions)

    @property
    def run(self) -> int:
        return self.segment.segment.run

    def column(self, name: str) -> pa.Array:
        """A column of the view or of the state, as it is kept."""
        stored_name = PRESENTED + name
        column = self.segment.batch.column(stored_name if stored_name in self.segment.columns else name)
        if len(self) and (np.diff(self.positions) == 1).all():
            return column.slice(int(self.positions[0]), len(self))
        return column.take(pa.array(self.positions))

    def frame(self, names: Sequence[str]) -> pl.DataFrame:
        """Columns of the view or of the state."""
        if not names:
            return pl.DataFrame(height=len(self))
        frame = pl.from_arrow(pa.table({name: self.column(name) for name in names}))
        assert isinstance(frame, pl.DataFrame)
        return frame

    def truth(self, name: str) -> Array:
        """A column of yes and no; null means no."""
        holds: Array = self.column(name).fill_null(False).to_numpy(zero_copy_only=False)
        return holds

    def where(self, holds: Array) -> Rows:
        """Those for which something holds."""
        return self if holds.all() else Rows(self.segment, self.positions[holds])


@dataclass(frozen=True)
class Expiry:
    """Final windows that ended before `before` are gone. All windows that end up to `closed` are final.

    A segment whose windows are all gone is not listed any more, so an older, open version of such a window may lie
    bare: `closed` tells that the window was final.
    """

    before: Instant = BEGINNING
    closed: Instant = -FOREVER

    def is_gone(self, final: Array, ends: Array) -> Array:
        """Which windows are gone."""
        gone: Array = (ends < self.before) & (final | (ends <= self.closed))
        return gone


class SegmentTable:
    """A view at one commit."""

    def __init__(self, segments: Sequence[MappedSegment], keys: Sequence[str], expiry: Expiry) -> None:
        self.keys, self.expiry = list(keys), expiry
        #: The segments of each kind, the newest first.
        self.kinds = [[one for one in segments if one.segment.kind == kind] for kind in ("rows", "final")]

    def rows(self, selection: Selection = Selection()) -> Iterator[Rows]:  # noqa: B008
        """The rows that are selected, a piece at a time."""
        for part in self.parts():
            for piece in part.pieces(selection):
                yield from piece

    def parts(self) -> list[SortedPart]:
        """The rows by how they are sorted. A row is in one of the parts only."""
        return [SortedPart(kind, self.keys, self.expiry) for kind in self.kinds if kind]


class SortedPart:
    """The segments of one kind, the newest first."""

    def __init__(self, segments: Sequence[MappedSegment], keys: Sequence[str], expiry: Expiry) -> None:
        self._segments, self._keys, self._expiry = list(segments), list(keys), expiry
        self.by_window = any(len(segment.ends) for segment in segments)

    def pieces(
        self, selection: Selection, *, newest: bool = False, after: Place | None = None, size: int = PIECE
    ) -> Iterator[list[Rows]]:
        """The rows that are selected, in their order or from the last to the first, piece by piece.

        With `after`, rows before that place are left out; the place itself is not. Pieces begin with `size` rows of a
        segment at most, and grow.
        """
        if selection.final is False and self._segments[0].segment.kind == "final":
            return
        hashed = selection.key_hashes(self._keys)
        if hashed is not None:
            parts = [
                Rows(segment, hash_positions(segment.hashes, self._windows(segment, selection), hashed))
                for segment in self._segments
            ]
            yield self._seen(parts, selection)
            return
        everything = not selection.bounds
        ranges = [
            Ranges.of(0, segment.batch.num_rows) if everything else self._windows(segment, selection)
            for segment in self._segments
        ]
        if after is not None:
            ranges = [
                own.before(self._position(segment, after, "right"))
                if newest
                else own.since(self._position(segment, after))
                for segment, own in zip(self._segments, ranges, strict=True)
            ]
        for piece in self._cut(ranges, newest, size):
            parts = [Rows(one, own.positions()) for one, own in zip(self._segments, piece, strict=True) if own.count]
            yield self._seen(parts, selection)

    def _windows(self, segment: MappedSegment, selection: Selection) -> Ranges:
        """Where the windows lie that are selected: each is sorted by hash."""
        if not self.by_window:
            return Ranges.of(0, segment.batch.num_rows)
        holds = selection.windows(segment.starts, segment.ends)
        return Ranges(segment.firsts[:-1][holds], segment.firsts[1:][holds])

    def _cut(self, ranges: Sequence[Ranges], newest: bool, size: int) -> Iterator[list[Ranges]]:
        """Cuts ranges of all segments at the same places. The first piece may be small: often nobody asks for more."""
        left = list(ranges)
        while any(own.count for own in left):
            places = [
                self._place(one, own.at(own.count - size if newest else size))
                for one, own in zip(self._segments, left, strict=True)
                if own.count > size
            ]
            if not places:
                yield left
                return
            place = max(places) if newest else min(places)
            cut = self._cut_at(left, place, "left")
            if not newest and not any(own.count for own in cut[0]):
                cut = self._cut_at(left, place, "right")  # many windows of one key
            piece, left = (cut[1], cut[0]) if newest else cut
            yield piece
            size = min(4 * size, PIECE)

    def _cut_at(self, ranges: Sequence[Ranges], place: Place, side: str) -> tuple[list[Ranges], list[Ranges]]:
        """What lies before a place, and the rest."""
        cuts = [self._position(segment, place, side) for segment in self._segments]
        pairs = list(zip(ranges, cuts, strict=True))
        return [own.before(cut) for own, cut in pairs], [own.since(cut) for own, cut in pairs]

    def _place(self, segment: MappedSegment, position: int) -> Place:
        hashed = int(segment.hashes[position])
        if not self.by_window:
            return Place(0, 0, hashed)
        window = int(np.searchsorted(segment.firsts, position, side="right")) - 1
        return Place(int(segment.ends[window]), int(segment.starts[window]), hashed)

    def _position(self, segment: MappedSegment, place: Place, side: str = "left") -> int:
        """How many rows of a segment lie before a place, or up to it."""
        first, last = 0, segment.batch.num_rows
        if self.by_window:
            low, high = np.searchsorted(segment.ends, place.end), np.searchsorted(segment.ends, place.end, "right")
            window = int(low + np.searchsorted(segment.starts[low:high], place.start))
            if window == high or segment.starts[window] != place.start:
                return int(segment.firsts[window])
            first, last = int(segment.firsts[window]), int(segment.firsts[window + 1])
        return first + int(np.searchsorted(segment.hashes[first:last], np.uint64(place.hash), side))  # type: ignore[call-overload]

    # what people see

    def _seen(self, parts: Sequence[Rows], selection: Selection) -> list[Rows]:
        """Of rows of several segments, the newest first, those that count and are selected."""
        seen: list[Rows] = []
        for number, rows in enumerate(parts):
            if len(rows):
                newer = [one for one in parts[:number] if len(one) and one.run > rows.run]  # one run has each row once
                current = rows.where(~self._replaced(rows, newer)) if newer else rows
                visible = self._visible(current, selection) if len(current) else current
                seen += [visible] if len(visible) else []
        return seen

    def _replaced(self, rows: Rows, newer: Sequence[Rows]) -> Array:
        """Which rows have a version in newer segments. Few hashes are equal by chance, so identities decide."""
        own, others = _hashes(rows), [_hashes(other) for other in newer]
        replaced = own.is_in(pl.concat(others).implode()).to_numpy().copy()
        if not replaced.any():
            return replaced
        wanted = own.filter(pl.Series(replaced)).implode()
        same = [other.where(hashed.is_in(wanted).to_numpy()) for other, hashed in zip(newer, others, strict=True)]
        identities = pl.concat([self._identity(other) for other in same if len(other)])
        by = identities.columns
        own_identities = self._identity(rows.where(replaced)).with_row_index("__row")
        known = own_identities.join(identities, on=by, how="semi", nulls_equal=True)["__row"].to_numpy()
        places = np.flatnonzero(replaced)
        replaced[:] = False
        replaced[places[known]] = True
        return replaced

    def _identity(self, rows: Rows) -> pl.DataFrame:
        frame = rows.frame([*self._keys, START, END])
        return frame.select(canonical(frame[name]) for name in frame.columns)

    def _visible(self, rows: Rows, selection: Selection) -> Rows:
        holds = rows.truth(VISIBLE)
        if rows.segment.segment.gone:
            holds = holds & ~rows.truth(GONE)
        if selection.final is not None:
            holds = holds & (rows.truth(FINAL) == selection.final)
        if self._expiry.before > BEGINNING:
            holds = holds & ~self._expiry.is_gone(rows.truth(FINAL), _numbers(rows, END))
        if selection.bounds and not self.by_window:
            holds = holds & selection.windows(_numbers(rows, START), _numbers(rows, END))
        if selection.keys:
            holds = holds & selection.has_key(rows.frame(list(selection.keys)))
        return rows.where(holds)


def _hashes(rows: Rows) -> pl.Series:
    return pl.Series(rows.segment.hashes[rows.positions])


def _numbers(rows: Rows, name: str) -> Array:
    numbers: Array = rows.column(name).to_numpy(zero_copy_only=False)
    return numbers
