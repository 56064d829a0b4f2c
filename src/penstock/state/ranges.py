"""Ranges of positions in a segment, in order and apart from each other, and binary search in all of them at once.

>>> ranges = Ranges(np.array([0, 10]), np.array([4, 12]))
>>> ranges.count, ranges.positions().tolist(), ranges.since(2).before(11).positions().tolist()
(6, [0, 1, 2, 3, 10, 11], [2, 3, 10])
>>> ranges.at(3), ranges.at(4)
(3, 10)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from penstock.kernel.hashing import Array


@dataclass(frozen=True)
class Ranges:
    """From each of `firsts` up to that of `lasts`, which is not included."""

    firsts: Array
    lasts: Array

    @classmethod
    def of(cls, first: int, last: int) -> Ranges:
        """One range."""
        return cls(np.array([first], np.int64), np.array([last], np.int64))

    @property
    def count(self) -> int:
        return int((self.lasts - self.firsts).sum())

    def positions(self) -> Array:
        """All positions."""
        if len(self.firsts) == 1:
            return np.arange(self.firsts[0], self.lasts[0])
        sizes = self.lasts - self.firsts
        steps = np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        positions: Array = np.repeat(self.firsts, sizes) + steps
        return positions

    def at(self, number: int) -> int:
        """The position with `count` positions before it."""
        ends = np.cumsum(self.lasts - self.firsts)
        place = int(np.searchsorted(ends, number, side="right"))
        return int(self.lasts[place] - (ends[place] - number))

    def since(self, position: int) -> Ranges:
        """The part from a position on."""
        skip = int(np.searchsorted(self.lasts, position, side="right"))
        return Ranges(np.maximum(self.firsts[skip:], position), self.lasts[skip:])

    def before(self, position: int) -> Ranges:
        """The part before a position."""
        keep = int(np.searchsorted(self.firsts, position))
        return Ranges(self.firsts[:keep], np.minimum(self.lasts[:keep], position))


def hash_positions(hashes: Array, ranges: Ranges, wanted: Array) -> Array:
    """The positions of wanted hashes, where each range is sorted by hash."""
    positions = [np.zeros(0, np.int64)]
    for hashed in wanted:
        first = _first_not_below(hashes, ranges, hashed)
        hit = first < ranges.lasts
        hit[hit] = hashes[first[hit]] == hashed
        places, lasts = first[hit], ranges.lasts[hit]
        while len(places):  # one turn, but for hashes that are equal by chance
            positions.append(places)
            places = places + 1
            more = places < lasts
            more[more] = hashes[places[more]] == hashed
            places, lasts = places[more], lasts[more]
    return np.unique(np.concatenate(positions))


def _first_not_below(hashes: Array, ranges: Ranges, wanted: np.uint64) -> Array:
    """In each range the position of the first hash that is not below the wanted one."""
    if len(ranges.firsts) == 1:
        first, last = int(ranges.firsts[0]), int(ranges.lasts[0])
        return np.array([first + np.searchsorted(hashes[first:last], wanted)], np.int64)
    low, high = ranges.firsts.copy(), ranges.lasts.copy()
    while (unsure := np.flatnonzero(low < high)).size:
        middle = (low[unsure] + high[unsure]) // 2
        below = hashes[middle] < wanted
        low[unsure[below]] = middle[below] + 1
        high[unsure[~below]] = middle[~below]
    return low
