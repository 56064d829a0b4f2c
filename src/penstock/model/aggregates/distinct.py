"""How many different values there are, exactly.

>>> count_distinct("user")
ps.count_distinct('user')
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from penstock.model.aggregates.base import Aggregate, Origin, Value
from penstock.model.aggregates.extremes import orderable
from penstock.model.aggregates.multiset import FromMultiset
from penstock.model.expressions import Sql, sql_text
from penstock.model.order import Key, key


@dataclass(frozen=True, repr=False)
class Distinct(Aggregate):
    """Partial: the set of values that are not null; −0.0 is 0.0, and NaN is one value."""

    x: str

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.x,)

    def element_type(self, types: tuple[str, ...]) -> str:
        return orderable(self, types[0])

    def zero(self) -> frozenset[Key]:
        return frozenset()

    def lift(self, values: tuple[Value, ...], origin: Origin) -> frozenset[Key]:
        (value,) = values
        return frozenset() if value is None else frozenset((key(value),))

    def merge(self, a: frozenset[Key], b: frozenset[Key]) -> frozenset[Key]:
        return a | b

    @abstractmethod
    def present(self, p: frozenset[Key]) -> Value: ...

    def retractable(self) -> FromMultiset:
        return FromMultiset(self, where=self.where)


class CountDistinct(Distinct):
    """The number of different values that are not null. Keeps them all: for many, see `approx_distinct`."""

    word: ClassVar[str] = "count_distinct"

    def result_type(self, types: tuple[str, ...]) -> str:
        self.element_type(types)
        return "bigint"

    def present(self, p: frozenset[Key]) -> int:
        return len(p)


def count_distinct(x: Sql, *, where: Sql | None = None) -> CountDistinct:
    """The number of different values that are not null, exactly; its state grows with that number."""
    return CountDistinct(sql_text(x), where=sql_text(where))
