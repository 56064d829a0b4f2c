"""A cheap aggregate live and an exact one in batch: unique visitors by a sketch, and counted where history is read.

A batch run computes both, and its answer stands for the window until a later row touches it; from then on the
aggregate of all its rows, live, answers. Each row says which: `people` has the column `people_exact` beside it.

>>> from penstock.model.aggregates import approx_distinct, count_distinct
>>> approx_distinct("user").in_batch(count_distinct("user"))
ps.approx_distinct('user').in_batch(ps.count_distinct('user'))
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Final, NamedTuple, NoReturn, TypeVar

from penstock.errors import DefinitionError
from penstock.model.aggregates.base import Aggregate, Origin, Partial, Value
from penstock.model.aggregates.monoid import Monoid

#: What rows leave behind, besides their partial: no row; an answer that stands; rows that a batch run will answer for;
#: rows of which only the live aggregate knows.
NOTHING, ANSWERED, PAST, LIVE = range(4)


#: What there is for each input of an aggregate: a type, a value, a column.
Given = TypeVar("Given")


def joined(a: int, b: int) -> int:
    """What two groups of rows are together: an answer holds for just the rows that it was given for."""
    if NOTHING in (a, b):
        return a + b
    return PAST if a == b == PAST else LIVE


class Both(NamedTuple):
    """The live partial, where its rows stand, and the batch answer if there is one."""

    live: Partial
    state: int
    answer: Value = None


@dataclass(frozen=True, repr=False)
class Paired(Aggregate):
    """`live` in every epoch, `batch` in batch runs. Both take the same rows and answer with the same type."""

    word: ClassVar[str] = "in_batch"
    exact: ClassVar[bool] = False

    live: Aggregate
    batch: Aggregate

    def __post_init__(self) -> None:
        if not isinstance(self.batch, Aggregate):
            raise DefinitionError(f"not an aggregate: {self.batch!r}", hint="for example ps.count_distinct('user')")
        super().__post_init__()
        shown = repr(self)
        if isinstance(self.live, (Paired, Exactness)) or isinstance(self.batch, (Paired, Exactness)):
            raise DefinitionError(
                f"one aggregate is for the live view, one for batch runs: {shown}", hint="leave one in_batch out"
            )
        if self.live.exact and not isinstance(self.live, Monoid):
            raise DefinitionError(f"{self.live!r} is exact already: {shown}", hint="leave in_batch out")
        if not self.batch.exact:
            raise DefinitionError(
                f"{self.batch!r} is not exact: {shown}", hint="give an exact one, for example ps.count_distinct('user')"
            )
        if self.live.where != self.batch.where:
            raise DefinitionError(f"both must take the same rows: {shown}", hint="give both the same where=")

    @property
    def inputs(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.live.inputs, *self.batch.inputs)))

    @property
    def tolerance(self) -> str:
        return f"{self.live.tolerance or 'as its monoid is'}; exact after a batch run, until a later row touches it"

    def of_live(self, values: tuple[Given, ...]) -> tuple[Given, ...]:
        """Of what is given for the inputs, what the live aggregate takes."""
        return tuple(values[self.inputs.index(text)] for text in self.live.inputs)

    def of_batch(self, values: tuple[Given, ...]) -> tuple[Given, ...]:
        """The same of the batch aggregate."""
        return tuple(values[self.inputs.index(text)] for text in self.batch.inputs)

    def result_type(self, types: tuple[str, ...]) -> str:
        live, batch = (one.result_type(own_types) for one, own_types in apart(self, types))
        if live != batch:
            raise DefinitionError(
                f"{self!r} answers with {live} live and with {batch} in batch",
                hint="both must answer with the same type: choose another aggregate for batch, or keep two columns",
            )
        return live

    def zero(self) -> Both:
        return Both(self.live.zero(), NOTHING)

    def lift(self, values: tuple[Value, ...], origin: Origin) -> Both:
        return Both(self.live.lift(self.of_live(values), origin), LIVE)

    def merge(self, a: Both, b: Both) -> Both:
        state = joined(a.state, b.state)
        answer = (a if a.state == ANSWERED else b).answer if state == ANSWERED else None
        return Both(self.live.merge(a.live, b.live), state, answer)

    def present(self, p: Both) -> Value:
        return p.answer if p.state == ANSWERED else self.live.present(p.live)

    def over(self, live: Aggregate, batch: Aggregate) -> Paired:
        """The same pair over other expressions."""
        return Paired(live, batch, where=live.where)

    def retractable(self) -> NoReturn:
        raise DefinitionError(
            f"{self.live.word} cannot take retractions: use {self.batch.word} alone", detail=f"in {self!r}"
        )

    def describe(self) -> str:
        return f"{self.live.describe()}.in_batch({self.batch.describe()})"

    def __repr__(self) -> str:
        return f"{self.live!r}.in_batch({self.batch!r})"


@dataclass(frozen=True, repr=False)
class Exactness(Aggregate):
    """Whether a pair's answer is the exact one: the column that stands beside it. Partial: where its rows stand."""

    word: ClassVar[str] = "exactness"

    @property
    def inputs(self) -> tuple[str, ...]:
        return ()

    def result_type(self, types: tuple[str, ...]) -> str:
        return "boolean"

    def zero(self) -> int:
        return NOTHING

    def lift(self, values: tuple[Value, ...], origin: Origin) -> int:
        return LIVE

    def merge(self, a: int, b: int) -> int:
        return joined(a, b)

    def present(self, p: int) -> bool:
        return p == ANSWERED

    def retractable(self) -> NoReturn:
        raise DefinitionError("a pair of a live and a batch aggregate cannot take retractions")


#: How the column is called that says whether another is exact.
_SUFFIX: Final = "_exact"


def with_exactness(aggregates: Mapping[str, Aggregate]) -> tuple[tuple[str, Aggregate], ...]:
    """Aggregates as a view has them: beside each pair the column that says whether it is exact."""
    columns: list[tuple[str, Aggregate]] = []
    for name, aggregate in aggregates.items():
        columns.append((name, aggregate))
        if isinstance(aggregate, Paired):
            if name + _SUFFIX in aggregates:
                raise DefinitionError(
                    f"'{name}{_SUFFIX}' is the column that says whether '{name}' is exact", hint="choose another name"
                )
            columns.append((name + _SUFFIX, Exactness(where=aggregate.where)))
    return tuple(columns)


def apart(aggregate: Aggregate, values: tuple[Given, ...]) -> list[tuple[Aggregate, tuple[Given, ...]]]:
    """The aggregates that one is made of, each with its own of what is given for the inputs."""
    if not isinstance(aggregate, Paired):
        return [(aggregate, values)]
    return [(aggregate.live, aggregate.of_live(values)), (aggregate.batch, aggregate.of_batch(values))]


def written(aggregates: Iterable[tuple[str, Aggregate]]) -> list[tuple[str, Aggregate]]:
    """The same as a user wrote them."""
    return [(name, aggregate) for name, aggregate in aggregates if not isinstance(aggregate, Exactness)]


def exactness(name: str) -> str:
    """The column that says whether this one is exact."""
    return name + _SUFFIX
