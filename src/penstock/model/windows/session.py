"""Sessions: a key's activity, ended by a gap; and merging windows with a rule of one's own.

A session runs from its first event to its last event plus the gap. Sessions that overlap or touch are one.

>>> session("10 seconds").open(5_000_000, ())
Interval(start=5000000, end=15000000)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from penstock.errors import DefinitionError, RowError
from penstock.model.naming import failing_rows, function_name
from penstock.model.time import Duration, Instant, instant, positive, show_duration, to_datetime
from penstock.model.windows.base import Interval, Merging, touching

Bounds = tuple[datetime | int, datetime | int]


@dataclass(frozen=True, repr=False)
class Session(Merging):
    """Windows of activity: a gap without events ends one."""

    gap: Duration

    def open(self, at: Instant, values: tuple[object, ...]) -> Interval:
        return Interval(at, at + self.gap)

    def groups(self, windows: Sequence[Interval]) -> list[list[Interval]]:
        return touching(windows)

    def __repr__(self) -> str:
        return f"ps.session({show_duration(self.gap)!r})"


@dataclass(frozen=True, repr=False)
class CustomMerging(Merging):
    """Windows opened by a function of the row and grouped by a function of a key's windows."""

    opener: Callable[..., Bounds] = field(compare=False)
    columns: tuple[str, ...]
    grouper: Callable[[list[tuple[datetime, datetime]]], Iterable[Iterable[int]]] | None = field(compare=False)
    identity: tuple[str, str]

    @property
    def inputs(self) -> tuple[str, ...]:
        return self.columns

    def open(self, at: Instant, values: tuple[object, ...]) -> Interval:
        with failing_rows(f"the window function {self.identity[0]}"):
            return checked_interval(self.opener(to_datetime(at), *values), self.identity[0])

    def groups(self, windows: Sequence[Interval]) -> list[list[Interval]]:
        """The user's grouping of the sorted windows; each window must stand in exactly one group."""
        if self.grouper is None:
            return touching(windows)
        ordered = sorted(windows)
        chosen = [sorted(set(g)) for g in self.grouper([(to_datetime(w.start), to_datetime(w.end)) for w in ordered])]
        if sorted(i for group in chosen for i in group) != list(range(len(ordered))):
            raise DefinitionError(
                f"the merge function {self.identity[1]} must put each of {len(ordered)} windows into one group",
                detail=f"it gave {chosen}",
                hint="return lists of indexes into the list that it was given",
            )
        return [[ordered[i] for i in group] for group in chosen]

    def __repr__(self) -> str:
        merge = f", merge={self.identity[1]}" if self.grouper else ""
        return f"ps.custom_merging({', '.join([self.identity[0], *map(repr, self.columns)])}{merge})"


def session(gap: str | timedelta) -> Session:
    """Windows of activity, ended by a gap: `session("30 minutes")`."""
    return Session(positive(gap, "the gap of a session"))


def custom_merging(
    opener: Callable[..., Bounds],
    *inputs: str,
    merge: Callable[[list[tuple[datetime, datetime]]], Iterable[Iterable[int]]] | None = None,
) -> CustomMerging:
    """User-defined merging windows.

    `opener(at, *values)` gives the (start, end) that one element opens; `inputs` are the SQL expressions whose values
    it takes. `merge(windows)` gets one key's windows, sorted, and returns groups of their indexes; without it windows
    that overlap or touch become one. It must depend on the set of windows only.
    """
    return CustomMerging(opener, inputs, merge, (function_name(opener), "" if merge is None else function_name(merge)))


def checked_interval(bounds: Bounds, who: str) -> Interval:
    """What a user's function gave, as a window; a row for which it is none goes to the dead letters."""
    if not isinstance(bounds, tuple) or len(bounds) != 2 or not all(isinstance(b, (datetime, int)) for b in bounds):
        raise RowError(f"the window function {who} gave {bounds!r}, not a (start, end) of datetimes or microseconds")
    start, end = (instant(bound) for bound in bounds)
    if start >= end:
        raise RowError(f"the window function {who} gave a window that ends before it starts: {bounds!r}")
    return Interval(start, end)
