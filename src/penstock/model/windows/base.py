"""What every kind of window has in common: it says *where* in event time (or in a key's sequence) an element counts.

A kind is one of four families, and the kernel has one way of working for each:

- `Aligned`: windows depend on the event time alone and are cut into slices that never straddle a window's bound;
- `Assigned`: a function of the row names the windows;
- `Merging`: every element opens a small window, and windows of a key that meet become one;
- `CountBased`: windows are ranges of a key's sequence of elements.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from penstock.model.time import END, Instant, show_instant


class Interval(NamedTuple):
    """A window: from `start` up to, and not including, `end`.

    >>> Interval(0, 10).holds(10)
    False
    """

    start: Instant
    end: Instant

    def holds(self, at: Instant) -> bool:
        return self.start <= at < self.end

    def __str__(self) -> str:
        return f"[{show_instant(self.start)}, {show_instant(self.end)})"


@dataclass(frozen=True)
class Window:
    """A kind of window, as a value: compares by content, and prints as its own constructor."""

    @property
    def inputs(self) -> tuple[str, ...]:
        """SQL texts whose values `assign` takes besides the event time."""
        return ()

    @property
    def needs_event_time(self) -> bool:
        return True

    @property
    def ends(self) -> bool:
        """Whether a window of this kind is ever complete."""
        return True

    @property
    def ends_in_event_time(self) -> bool:
        """Whether it is the watermark that completes a window of this kind."""
        return self.ends


@dataclass(frozen=True)
class Aligned(Window, ABC):
    """Windows that depend on the event time alone."""

    @abstractmethod
    def slice_of(self, at: Instant) -> Interval:
        """The slice that holds this instant: a stretch of time that no window's bound divides."""

    @abstractmethod
    def windows_of(self, slice_: Interval) -> tuple[Interval, ...]:
        """The windows that contain a slice, by ascending end."""

    def assign(self, at: Instant) -> tuple[Interval, ...]:
        return self.windows_of(self.slice_of(at))


@dataclass(frozen=True)
class Assigned(Window, ABC):
    """Windows that a function of the row names."""

    @abstractmethod
    def assign(self, at: Instant, values: tuple[object, ...]) -> tuple[Interval, ...]: ...


@dataclass(frozen=True)
class Merging(Window, ABC):
    """Windows that grow together: each element opens one, those of a key that belong together become their span."""

    @abstractmethod
    def open(self, at: Instant, values: tuple[object, ...]) -> Interval:
        """The window that one element opens."""

    @abstractmethod
    def groups(self, windows: Sequence[Interval]) -> list[list[Interval]]:
        """Splits one key's windows, sorted, into groups that become one window each."""


@dataclass(frozen=True)
class CountBased(Window):
    """Windows over a key's sequence of elements, numbered from 0 by commit and then by log position."""

    @property
    def needs_event_time(self) -> bool:
        return False

    @property
    def ends_in_event_time(self) -> bool:
        return False


def span(group: Sequence[Interval]) -> Interval:
    """The smallest window that covers a group."""
    return Interval(min(w.start for w in group), max(w.end for w in group))


def touching(windows: Sequence[Interval]) -> list[list[Interval]]:
    """Groups of windows that overlap or touch.

    >>> touching([Interval(0, 5), Interval(5, 9), Interval(10, 12)])
    [[Interval(start=0, end=5), Interval(start=5, end=9)], [Interval(start=10, end=12)]]
    """
    groups: list[list[Interval]] = []
    reach = -END
    for window in sorted(windows):
        if groups and window.start <= reach:
            groups[-1].append(window)
        else:
            groups.append([window])
        reach = max(reach, window.end) if len(groups[-1]) > 1 else window.end
    return groups
