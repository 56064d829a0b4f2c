"""Epochs that a producer assigns: a column says which epoch a row belongs to, and rows may say that theirs is over.

An epoch is complete when every partition of the log has passed it: there came a row of a later one, or its end.

>>> passed = EpochProgress()
>>> passed.row(0, 1), passed.row(1, 1), passed.complete([0, 1])
(False, False, [])
>>> passed.row(0, 2), passed.complete([0, 1])
(False, [])
>>> passed.row(1, 1, ends=True), passed.complete([0, 1])
(False, [1])
>>> passed.row(1, 1)     # a row of an epoch that is over
True
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.errors import DefinitionError
from penstock.model.expressions import bind
from penstock.model.types import Schema, is_integer


@dataclass(frozen=True, repr=False)
class Epochs:
    """`number` is the expression that tells the epoch of a row; `ends` the condition under which a row ends it."""

    number: str
    ends: str | None = None

    def check(self, schema: Schema) -> None:
        """Refuses what these columns cannot give."""
        number = bind(self.number, schema).type
        if number is not None and not is_integer(number):
            raise DefinitionError(f"epoch={self.number!r} is {number}", hint="give a column of whole numbers")
        if self.ends is not None:
            ends = bind(self.ends, schema).type
            if ends is not None and ends != "boolean":
                raise DefinitionError(f"ends={self.ends!r} is {ends}, not a condition")

    def __repr__(self) -> str:
        return f"ps.epochs({self.number!r}{'' if self.ends is None else f', ends={self.ends!r}'})"


def epochs(number: str, *, ends: str | None = None) -> Epochs:
    """Epochs that the producer defines: `ps.epochs("batch")`, or `ps.epochs("batch", ends="kind = 'end'")`.

    In each partition numbers go up. Without `ends` an epoch is over in a partition when a row of a later one comes.
    """
    return Epochs(number, ends)


def epochs_of(epochs: str | Epochs | None) -> Epochs | None:
    return Epochs(epochs) if isinstance(epochs, str) else epochs


@dataclass
class EpochProgress:
    """How far partitions are: up to which epoch each has passed; those that have begun, and the last one completed."""

    through: dict[int, int] = field(default_factory=dict)
    begun: set[int] = field(default_factory=set)
    completed: int | None = None

    def row(self, partition: int, number: int, ends: bool = False) -> bool:
        """A row of an epoch came. Whether that epoch had been completed before."""
        late = self.completed is not None and number <= self.completed
        if not late:
            self.begun.add(number)
        self.through[partition] = max(self.through.get(partition, number - 1), number if ends else number - 1)
        return late

    def complete(self, partitions: Collection[int]) -> list[int]:
        """The epochs that all partitions have passed by now, in order; each is returned once."""
        known = {*partitions, *self.through}
        if not known or any(partition not in self.through for partition in known):
            return []
        through = min(self.through[partition] for partition in known)
        numbers = sorted(number for number in self.begun if number <= through)
        self.begun -= set(numbers)
        if numbers:
            self.completed = numbers[-1]
        return numbers

    def saved(self) -> dict[str, Any]:
        return {"through": list(self.through.items()), "begun": sorted(self.begun), "completed": self.completed}

    @classmethod
    def restore(cls, saved: Mapping[str, Any]) -> EpochProgress:
        return cls({int(of): int(at) for of, at in saved["through"]}, set(saved["begun"]), saved["completed"])
