"""Counters of user code: `ps.counter("bad_rows").add(1)`, in any function that Penstock runs.

The caller of user code collects what it counts. The counts travel with the result of the step, so that those of a step
that runs again are not doubled. Where nobody collects, as in a test, counts add up in `counted()`.

>>> with collected() as counts:
...     counter("bad_rows").add(2)
...     counter("bad_rows").add(1)
>>> counts.totals()
{'bad_rows': 3}
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sized
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from penstock.errors import DefinitionError
from penstock.model.naming import valid_name
from penstock.process_state import process


class Collector(Protocol):
    """Receives what user code counts."""

    def add(self, name: str, number: int) -> None:
        """User code adds to a counter."""


_Collector = TypeVar("_Collector", bound=Collector)


@dataclass
class Counts:
    """What user code has counted. What was added since the last `keep` can be dropped again."""

    sums: dict[str, int] = field(default_factory=dict)
    new: list[tuple[str, int]] = field(default_factory=list)
    #: If it is there: what was counted already, by what it belongs to. It is not counted again.
    once: set[Hashable] | None = None

    def add(self, name: str, number: int) -> None:
        self.new.append((name, number))

    def keep(self) -> None:
        """What was added stays."""
        for name, number in self.new:
            self.sums[name] = self.sums.get(name, 0) + number
        self.new.clear()

    def drop(self) -> None:
        """What was added since the last `keep` has not happened."""
        self.new.clear()

    def totals(self) -> dict[str, int]:
        """The sum of each counter."""
        self.keep()
        return dict(self.sums)


class Uncollected(Counts):
    """What user code has counted in this process where nobody collects."""


@dataclass(frozen=True)
class RowCount:
    """What a function of rows has counted, and at which row."""

    row: int
    name: str
    number: int


@dataclass
class RowCounts:
    """What a function of rows counts, row by row. `done` has one entry for each row that it has finished."""

    done: Sized
    counts: list[RowCount] = field(default_factory=list)

    def add(self, name: str, number: int) -> None:
        self.counts.append(RowCount(len(self.done), name, number))


_HERE: ContextVar[Collector] = ContextVar("counts")


@dataclass(frozen=True)
class Counter:
    """A counter of user code, by its name."""

    name: str

    def __post_init__(self) -> None:
        if not valid_name(self.name):
            raise DefinitionError(
                f"a counter cannot have the name '{self.name}'", hint="use letters, digits and underscores"
            )

    def add(self, number: int = 1) -> None:
        """Adds to the counter."""
        (_HERE.get(None) or process.of(Uncollected)).add(self.name, number)


def counter(name: str) -> Counter:
    """A counter of user code; counters of the same name are one."""
    return Counter(name)


@contextmanager
def collecting(collector: _Collector) -> Iterator[_Collector]:
    """What user code counts inside of this block goes to a collector."""
    before = _HERE.set(collector)
    try:
        yield collector
    finally:
        _HERE.reset(before)


@contextmanager
def collected() -> Iterator[Counts]:
    """What user code counts inside of this block."""
    with collecting(Counts()) as counts:
        yield counts


def count(counts: Iterable[tuple[str, int]], of: Hashable) -> None:
    """Passes on what was counted. `of` is what it belongs to, such as a step and an event."""
    here = _HERE.get(None) or process.of(Uncollected)
    if isinstance(here, Counts) and here.once is not None:
        if of in here.once:
            return
        here.once.add(of)
    for name, number in counts:
        here.add(name, number)


def counted() -> dict[str, int]:
    """What was counted where nobody collects."""
    return process.of(Uncollected).totals()
