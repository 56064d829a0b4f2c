"""The form of an aggregate that takes retractions by keeping how often each value is there.

A retracting row takes back an inserted one of the same values (and event time, where the aggregate orders by it): the
position in the log says nothing, since the retraction has its own. So ties are broken by value here.

>>> from penstock.model.aggregates import max
>>> top, at = max("x").retractable(), Origin(0, 0, 0)
>>> rows = top.merge(top.lift((5,), at), top.lift((3,), at))
>>> top.present(top.merge(rows, top.inverse(top.lift((5,), at))))
3
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from penstock.model.aggregates.base import Aggregate, Origin, Value
from penstock.model.order import Key, key, value_of

#: (event time, or 0 where it plays no part; the values' keys) → how often it is there.
Multiset: TypeAlias = dict[tuple[int, Key], int]


@dataclass(frozen=True, repr=False)
class FromMultiset(Aggregate):
    """`of`, computed from a multiset of its input rows. `timed`: rows match only at the same event time."""

    of: Aggregate
    timed: bool = False

    @property
    def word(self) -> str:  # type: ignore[override]
        return self.of.word

    @property
    def inputs(self) -> tuple[str, ...]:
        return self.of.inputs

    def result_type(self, types: tuple[str, ...]) -> str:
        return self.of.result_type(types)

    def zero(self) -> Multiset:
        return {}

    def lift(self, values: tuple[Value, ...], origin: Origin) -> Multiset:
        if self.of.lift(values, origin) == self.of.zero():
            return {}  # a row that `of` skips
        return {(origin.at if self.timed else 0, key(values)): 1}

    def merge(self, a: Multiset, b: Multiset) -> Multiset:
        merged = {element: times + b.get(element, 0) for element, times in a.items()}
        merged |= {element: times for element, times in b.items() if element not in a}
        return {element: times for element, times in merged.items() if times}

    def inverse(self, p: Multiset) -> Multiset:
        return {element: -times for element, times in p.items()}

    def present(self, p: Multiset) -> Value:
        partial, offset = self.of.zero(), 0
        for (at, values), times in sorted(p.items()):
            # A row taken back before it came (times < 0) waits for it.
            for _ in range(times):
                row = self.of.lift(tuple(value_of(values)), Origin(at, 0, offset))
                partial, offset = self.of.merge(partial, row), offset + 1
        return self.of.present(partial)

    def retractable(self) -> FromMultiset:
        return self

    def __repr__(self) -> str:
        return f"{self.of!r}.retractable()"
