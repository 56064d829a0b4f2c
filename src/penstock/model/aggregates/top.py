"""The k rows in which a value is largest.

>>> top(3, "score", value="player")
ps.top(3, 'score', value='player')
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from penstock.errors import DefinitionError
from penstock.model.aggregates.base import Aggregate, Origin, Value
from penstock.model.aggregates.extremes import orderable
from penstock.model.aggregates.multiset import Counted
from penstock.model.expressions import Sql, sql_text
from penstock.model.order import Key, exact, key, value_of

#: (by, partition, offset, ordinal, value) of at most k rows, best first.
Ranking: TypeAlias = tuple[tuple[Key, int, int, int, Key], ...]


@dataclass(frozen=True, repr=False)
class Top(Aggregate):
    """Partial: the best rows so far. Ties by the earliest position; rows where `by` is null are skipped."""

    word: ClassVar[str] = "top"

    k: int
    by: str
    value: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.k, int) or isinstance(self.k, bool) or self.k < 1:
            raise DefinitionError(
                f"ps.top needs a number of rows of at least 1, and got {self.k!r}",
                hint='write for example ps.top(3, "score")',
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
        return tuple(sorted(by_position, key=lambda row: row[0], reverse=True)[: self.k])

    def present(self, p: Ranking) -> list[Value]:
        return [value_of(row[-1]) for row in p]

    def retractable(self) -> Counted:
        return Counted(self, where=self.where)


def top(k: int, by: Sql, *, value: Sql | None = None, where: Sql | None = None) -> Top:
    """The k largest `by`, largest first, or the `value` of those rows. Ties by the earliest position in the log."""
    return Top(k, sql_text(by), sql_text(value), where=sql_text(where))
