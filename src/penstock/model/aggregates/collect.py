"""All values, as a list in order or as a set.

>>> collect_list("page"), collect_set("page", where="seconds > 5")
(ps.collect_list('page'), ps.collect_set('page', where='seconds > 5'))
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from penstock.errors import DefinitionError
from penstock.model.aggregates.base import Aggregate, Origin, Value
from penstock.model.aggregates.distinct import Distinct
from penstock.model.aggregates.multiset import FromMultiset
from penstock.model.expressions import Sql, sql_text
from penstock.model.order import Key, exact, value_of

#: (event time, or 0 in order of position; partition, offset, ordinal, value), in order.
Entries: TypeAlias = tuple[tuple[int, int, int, int, Key], ...]


@dataclass(frozen=True, repr=False)
class CollectList(Aggregate):
    """Partial: the values with what orders them. Nulls are skipped, as in Spark."""

    word: ClassVar[str] = "collect_list"

    x: str
    order: str = "time"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.order not in ("time", "position"):
            raise DefinitionError(
                f"unknown order {self.order!r} of ps.collect_list", detail="there are: time, position"
            )

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.x,)

    def result_type(self, types: tuple[str, ...]) -> str:
        return f"array<{types[0]}>"

    def zero(self) -> Entries:
        return ()

    def lift(self, values: tuple[Value, ...], origin: Origin) -> Entries:
        (value,) = values
        at = origin.at if self.order == "time" else 0
        return () if value is None else ((at, *origin[1:], exact(value)),)

    def merge(self, a: Entries, b: Entries) -> Entries:
        return tuple(sorted((*a, *b)))

    def present(self, p: Entries) -> list[Value]:
        return [value_of(entry[-1]) for entry in p]

    def retractable(self) -> FromMultiset:
        return FromMultiset(self, timed=self.order == "time", where=self.where)


class CollectSet(Distinct):
    """The different values that are not null, smallest first."""

    word: ClassVar[str] = "collect_set"

    def result_type(self, types: tuple[str, ...]) -> str:
        return f"array<{self.element_type(types)}>"

    def present(self, p: frozenset[Key]) -> list[Value]:
        return [value_of(element) for element in sorted(p)]


def collect_list(x: Sql, *, order: str = "time", where: Sql | None = None) -> CollectList:
    """All values that are not null, by event time ("time", ties by position) or by position in the log ("position")."""
    return CollectList(sql_text(x), order, where=sql_text(where))


def collect_set(x: Sql, *, where: Sql | None = None) -> CollectSet:
    """The different values that are not null, smallest first."""
    return CollectSet(sql_text(x), where=sql_text(where))
