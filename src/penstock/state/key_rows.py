"""Finds the rows of one key in a view whose state is in segments: the newest version of each of its windows.

A binary search by hash in each segment that may have the key, and single values of the rows that it finds. It does what
`read.SegmentTable` does for any selection, with less to set up: a lookup takes microseconds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from penstock.kernel.columns import END, START
from penstock.kernel.one_key import Plain, PlainKey
from penstock.model.time import BEGINNING, Instant
from penstock.state.layout import FINAL, GONE, PRESENTED, VISIBLE
from penstock.state.ranges import Ranges, hash_positions
from penstock.state.read import Expiry, SegmentTable
from penstock.state.segment import MappedSegment
from penstock.state.selection import Bound, Selection

#: A key with more rows than this, in all segments and versions, is left to `SegmentTable`.
MOST_ROWS: Final = 1_000
#: Up to this number of windows of a segment, a loop is faster than a search in all of them at once.
_FEW: Final = 16
_SHIFT: Final = 1 << 63


class TooManyRows(Exception):
    """The key has enough rows for reading columns to be faster."""


class SegmentCells:
    """Single values of a segment."""

    def __init__(self, segment: MappedSegment) -> None:
        self.segment = segment
        columns = dict(zip(segment.columns, segment.batch.columns, strict=True))
        presented = {name.removeprefix(PRESENTED): one for name, one in columns.items() if name.startswith(PRESENTED)}
        by_window = Ranges(segment.firsts[:-1], segment.firsts[1:])
        self._ranges = by_window if len(segment.ends) else Ranges.of(0, segment.batch.num_rows)
        #: The columns of the view and of the state, as they are kept.
        self.columns: dict[str, pa.Array] = columns | presented

    def value(self, name: str, position: int) -> Any:
        """A value: times in microseconds, dates in days."""
        scalar = self.columns[name][position]
        return scalar.value if isinstance(scalar, pa.TimestampScalar | pa.Date32Scalar) else scalar.as_py()

    def positions(self, hashed: np.uint64, bounds: Sequence[Bound]) -> list[int]:
        """Where rows of a hash lie. Where rows lie by window, `bounds` says in which windows to look."""
        ranges = self._ranges
        if bounds and len(self.segment.ends):
            holds = Selection(bounds=bounds).windows(self.segment.starts, self.segment.ends)
            ranges = Ranges(ranges.firsts[holds], ranges.lasts[holds])
        if len(ranges.firsts) > _FEW:
            return [int(one) for one in hash_positions(self.segment.hashes, ranges, np.array([hashed], np.uint64))]
        hashes, positions = self.segment.hashes, list[int]()
        for first, last in zip(ranges.firsts.tolist(), ranges.lasts.tolist(), strict=True):
            place = first + int(hashes[first:last].searchsorted(hashed))
            while place < last and hashes[place] == hashed:
                positions.append(place)
                place += 1
        return positions


@dataclass(frozen=True)
class KeyRow:
    """A row of a segment, and its window."""

    cells: SegmentCells
    position: int
    end: Instant
    start: Instant


class _Part:
    """The segments of one kind, the newest first."""

    def __init__(self, segments: Sequence[MappedSegment]) -> None:
        self._segments, self._cells = list(segments), dict[int, SegmentCells]()
        self.is_final = segments[0].segment.kind == "final"
        self._lows = np.array([one.segment.low for one in segments], np.int64)
        self._highs = np.array([one.segment.high for one in segments], np.int64)

    def with_hash(self, hashed: int) -> Iterator[SegmentCells]:
        """The segments that may have rows of a hash, the newest first."""
        signed = hashed - _SHIFT
        for number in np.flatnonzero((self._lows <= signed) & (self._highs >= signed)).tolist():
            if number not in self._cells:
                self._cells[number] = SegmentCells(self._segments[number])
            yield self._cells[number]


class KeyRows:
    """A view at one commit. Lookups share what depends on the commit alone."""

    def __init__(self, table: SegmentTable) -> None:
        self._keys, self._expiry = tuple(table.keys), table.expiry
        self._parts = [_Part(segments) for segments in table.kinds if segments]

    def find(self, key: PlainKey, bounds: Sequence[Bound] = (), final: bool | None = None) -> list[KeyRow]:
        """The rows of a key that people see, in no order."""
        hashed, rows, count = key.hash, list[KeyRow](), 0
        for part in self._parts:
            if part.is_final and final is False:
                continue
            known: set[tuple[Instant, Instant]] = set()
            for cells in part.with_hash(hashed):
                positions = cells.positions(np.uint64(hashed), bounds)
                count += len(positions)
                if count > MOST_ROWS:
                    raise TooManyRows
                for position in positions:
                    if not self._has_key(cells, position, key):
                        continue  # hashes may be equal by chance
                    window = cells.value(END, position), cells.value(START, position)
                    if window not in known:
                        known.add(window)
                        row = KeyRow(cells, position, *window)
                        if _is_seen(row, bounds, final, self._expiry):
                            rows.append(row)
        return rows

    def _has_key(self, cells: SegmentCells, position: int, key: PlainKey) -> bool:
        values = zip(self._keys, key.values, strict=True)
        return all(_is_same(cells.value(name, position), value) for name, value in values)


def _is_same(one: Plain, other: Plain) -> bool:
    return one == other or (one != one and other != other)  # NaN is one key


def _is_seen(row: KeyRow, bounds: Sequence[Bound], final: bool | None, expiry: Expiry) -> bool:
    """Whether people see the newest version of a row, and ask for it."""
    cells, position = row.cells, row.position
    if not cells.value(VISIBLE, position) or (cells.segment.segment.gone and cells.value(GONE, position)):
        return False
    is_final = bool(cells.value(FINAL, position))
    if final is not None and is_final != final:
        return False
    if row.end < expiry.before and expiry.before > BEGINNING and (is_final or row.end <= expiry.closed):
        return False
    return not bounds or bool(Selection(bounds=bounds).windows(np.array([row.start]), np.array([row.end]))[0])
