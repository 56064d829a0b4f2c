"""Windows that two columns of the row name: those of a view's changes, above all.

>>> window_of("window_start", "window_end").assign(0, (0, 10))
(Interval(start=0, end=10),)
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.errors import RowError
from penstock.model.time import Instant
from penstock.model.windows.base import Assigned, Interval


@dataclass(frozen=True, repr=False)
class Named(Assigned):
    """One window a row, from the first of its two columns up to the second."""

    columns: tuple[str, ...]

    @property
    def inputs(self) -> tuple[str, ...]:
        return self.columns

    def assign(self, at: Instant, values: tuple[object, ...]) -> tuple[Interval, ...]:
        start, end = values
        if not isinstance(start, int) or not isinstance(end, int) or start >= end:
            raise RowError(f"'{self.columns[0]}' and '{self.columns[1]}' name no window: it must end after its start")
        return (Interval(start, end),)

    def __repr__(self) -> str:
        return f"ps.window_of({self.columns[0]!r}, {self.columns[1]!r})"


def window_of(start: str = "window_start", end: str = "window_end") -> Named:
    """The window in the row's own columns: for a view's changes, the window of that view."""
    return Named((start, end))
