"""Windows of one length: fixed, sliding, cumulating, and the one global window.

>>> fixed("10 seconds").assign(12_000_000)
(Interval(start=10000000, end=20000000),)
>>> [w.end for w in sliding("10 seconds", every="5 seconds").assign(12_000_000)]
[15000000, 20000000]
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from math import gcd

from penstock.errors import DefinitionError
from penstock.model.time import BEGINNING, END, Duration, Instant, duration, positive, show_duration
from penstock.model.windows.base import Aligned, Interval


def _floor(at: Instant, step: Duration, offset: Duration) -> Instant:
    return at - (at - offset) % step


def _offset(offset: Duration) -> str:
    return f", offset={show_duration(offset)!r}" if offset else ""


@dataclass(frozen=True, repr=False)
class Fixed(Aligned):
    """Windows of one size, end to end."""

    size: Duration
    offset: Duration = 0

    def slice_of(self, at: Instant) -> Interval:
        start = _floor(at, self.size, self.offset)
        return Interval(start, start + self.size)

    def windows_of(self, slice_: Interval) -> tuple[Interval, ...]:
        return (slice_,)

    def __repr__(self) -> str:
        return f"ps.fixed({show_duration(self.size)!r}{_offset(self.offset)})"


@dataclass(frozen=True, repr=False)
class Sliding(Aligned):
    """Windows of one size that start at every multiple of a step. A step above the size leaves gaps, in no window."""

    size: Duration
    every: Duration
    offset: Duration = 0

    @property
    def slice(self) -> Duration:
        return gcd(self.size, self.every)

    def slice_of(self, at: Instant) -> Interval:
        start = _floor(at, self.slice, self.offset)
        return Interval(start, start + self.slice)

    def windows_of(self, slice_: Interval) -> tuple[Interval, ...]:
        last = _floor(slice_.start, self.every, self.offset)
        count = (
            slice_.start - last + self.size - 1
        ) // self.every  # the window before the oldest that still reaches us
        starts = range(last - count * self.every, last + 1, self.every)
        return tuple(Interval(s, s + self.size) for s in starts if s + self.size > slice_.start)

    def __repr__(self) -> str:
        return f"ps.sliding({show_duration(self.size)!r}, every={show_duration(self.every)!r}{_offset(self.offset)})"


@dataclass(frozen=True, repr=False)
class Cumulating(Aligned):
    """Windows that start together and end one step after another: the running total within each `size`."""

    size: Duration
    step: Duration
    offset: Duration = 0

    def slice_of(self, at: Instant) -> Interval:
        start = _floor(at, self.step, self.offset)
        return Interval(start, start + self.step)

    def windows_of(self, slice_: Interval) -> tuple[Interval, ...]:
        start = _floor(slice_.start, self.size, self.offset)
        return tuple(Interval(start, end) for end in range(slice_.end, start + self.size + 1, self.step))

    def __repr__(self) -> str:
        return f"ps.cumulating({show_duration(self.size)!r}, step={show_duration(self.step)!r}{_offset(self.offset)})"


@dataclass(frozen=True, repr=False)
class Global(Aligned):
    """One window for all time: it is never complete, and needs no event time."""

    @property
    def needs_event_time(self) -> bool:
        return False

    @property
    def ends(self) -> bool:
        return False

    def slice_of(self, at: Instant) -> Interval:
        return Interval(BEGINNING, END)

    def windows_of(self, slice_: Interval) -> tuple[Interval, ...]:
        return (slice_,)

    def __repr__(self) -> str:
        return "ps.global_window()"


def fixed(size: str | timedelta, *, offset: str | timedelta = "0 seconds") -> Fixed:
    """Windows of one size, end to end: `fixed("1 minute")`."""
    micros = positive(size, "the size of a window")
    return Fixed(micros, duration(offset) % micros)


def sliding(size: str | timedelta, *, every: str | timedelta, offset: str | timedelta = "0 seconds") -> Sliding:
    """Windows of one size that start at a regular distance: `sliding("5 minutes", every="1 minute")`."""
    step = positive(every, "the step of a sliding window")
    return Sliding(positive(size, "the size of a window"), step, duration(offset) % step)


def cumulating(size: str | timedelta, *, step: str | timedelta, offset: str | timedelta = "0 seconds") -> Cumulating:
    """Running totals: `cumulating("1 day", step="1 hour")` has a window from midnight to each full hour."""
    whole, part = positive(size, "the size of a window"), positive(step, "the step of a cumulating window")
    if whole % part:
        raise DefinitionError(
            f"the step {show_duration(part)} does not divide the size {show_duration(whole)}",
            hint="a cumulating window's size is a multiple of its step",
        )
    return Cumulating(whole, part, duration(offset) % whole)


def global_window() -> Global:
    """One window for all time."""
    return Global()
