"""Count windows: a number of elements of a key. The bounds are sequence numbers, not instants.

>>> count_window(4, every=2).assign(5)
(Interval(start=2, end=6), Interval(start=4, end=8))
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

from penstock.errors import DefinitionError
from penstock.model.windows.base import CountBased, Interval


@dataclass(frozen=True, repr=False)
class CountWindow(CountBased):
    """Ranges of `size` elements, one starting at every multiple of `every`. A window is complete when it is full."""

    size: int
    every: int

    @property
    def slice(self) -> int:
        return gcd(self.size, self.every)

    def assign(self, number: int) -> tuple[Interval, ...]:
        """The windows of a key's element with this number, counted from 0."""
        last = number // self.every * self.every
        starts = range(last, max(number - self.size, -1), -self.every)
        return tuple(Interval(s, s + self.size) for s in reversed(starts))

    def __repr__(self) -> str:
        return f"ps.count_window({self.size}{f', every={self.every}' if self.every != self.size else ''})"


def count_window(size: int, *, every: int | None = None) -> CountWindow:
    """Windows of `size` elements of a key; a sliding one starts at every n-th: `count_window(100, every=10)`."""
    step = size if every is None else every
    for what, value in (("size", size), ("step", step)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise DefinitionError(f"the {what} of a count window must be a whole number above zero, and is {value!r}")
    return CountWindow(size, step)
