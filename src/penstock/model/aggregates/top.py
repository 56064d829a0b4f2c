"""The k rows in which a value is largest.

>>> top(3, "score", value="player")
ps.top(3, 'score', value='player')
>>> top(1, "score", value="player", ties=True)
ps.top(1, 'score', value='player', ties=True)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from penstock.errors import DefinitionError
from penstock.model.aggregates.base import Aggregate, Origin, Value
from penstock.model.aggregates.extremes import orderable
from penstock.model.aggregates.multiset import FromMultiset
from penstock.model.expressions import Sql, sql_text
from penstock.model.order import Key, exact, key, value_of

#: (by, partition, offset, ordinal, value) of the best rows, best first.
Ranking: TypeAlias = tuple[tuple[Key, int, int, int, Key], ...]


@dataclass(frozen=True, repr=False)
class Top(Aggregate):
    """Partial: the best rows so far. Equal ones by the earliest position; rows where `by` is null are skipped.

    With `ties`, all rows that equal the k-th are there too, as in SQL's `FETCH FIRST k ROWS WITH TIES`.
    """

    word: ClassVar[str] = "top"

    k: int
    by: str
    value: str | None = None
    ties: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.k, int) or isinstance(self.k, bool) or self.k < 1:
            raise DefinitionError(
                f"ps.top needs a number of rows of at least 1, and got {self.k!r}",
                hint='write for example ps.top(3, "score")',
            )
        if not isinstance(self.ties, bool):
            raise DefinitionError(
                f"ties= of ps.top is True or False, and got {self.ties!r}", hint="leave it out, or write ties=True"
            )

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.by,) if self.value is None else (self.by, self.value)

    def result_type(self, types: tuple[str, ...]) -> str:
        orderable(self, types[0])
        return f"array<{types[-1]}>"

    def zero(self) -> Ranking:
        return ()

    def lift(self, values: tuple[Value, ...], origin: Origin) -> Ranking:
        by, value = values[0], values[-1]
        return () if by is None else ((key(by), *origin[1:], exact(value)),)

    def merge(self, a: Ranking, b: Ranking) -> Ranking:
        by_position = sorted((*a, *b), key=lambda row: row[1:])
        ranked = sorted(by_position, key=lambda row: row[0], reverse=True)
        if self.ties and len(ranked) > self.k:
            return tuple(row for row in ranked if row[0] >= ranked[self.k - 1][0])
        return tuple(ranked[: self.k])

    def present(self, p: Ranking) -> list[Value]:
        return [value_of(row[-1]) for row in p]

    def retractable(self) -> FromMultiset:
        return FromMultiset(self, where=self.where)


def top(k: int, by: Sql, *, value: Sql | None = None, ties: bool = False, where: Sql | None = None) -> Top:
    """The k largest `by`, largest first, or the `value` of those rows. Equal ones are in the order of the log.

    With `ties=True` all rows that equal the k-th are there too, however many: `ps.top(1, "price", value="bid",
    ties=True)` has every bid of the highest price.
    """
    return Top(k, sql_text(by), sql_text(value), ties, where=sql_text(where))
