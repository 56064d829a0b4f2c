"""Windows that a function of the row names.

>>> from datetime import timedelta
>>> hour = timedelta(hours=1)
>>> around = custom(lambda at: [(at - hour, at + hour)])
>>> around.assign(0, ())
(Interval(start=-3600000000, end=3600000000),)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from penstock.model.naming import failing_rows, function_name
from penstock.model.time import Instant, to_datetime
from penstock.model.windows.base import Assigned, Interval
from penstock.model.windows.session import Bounds, checked_interval


@dataclass(frozen=True, repr=False)
class Custom(Assigned):
    """Windows named by a function of the event time and of some of the row's values."""

    function: Callable[..., Iterable[Bounds]] = field(compare=False)
    columns: tuple[str, ...]
    identity: str

    @property
    def inputs(self) -> tuple[str, ...]:
        return self.columns

    def assign(self, at: Instant, values: tuple[object, ...]) -> tuple[Interval, ...]:
        """The row's windows, without repetition, by ascending end."""
        with failing_rows(f"the window function {self.identity}"):
            windows = {checked_interval(bounds, self.identity) for bounds in self.function(to_datetime(at), *values)}
        return tuple(sorted(windows, key=lambda w: (w.end, w.start)))

    def __repr__(self) -> str:
        return f"ps.custom({', '.join([self.identity, *map(repr, self.columns)])})"


def custom(function: Callable[..., Iterable[Bounds]], *inputs: str) -> Custom:
    """User-defined windows: `function(at, *values)` gives (start, end) pairs; `inputs` are SQL expressions.

    The kernel calls it once for each distinct (event time, values) of a batch.
    """
    return Custom(function, inputs, function_name(function))
