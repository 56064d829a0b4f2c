"""What an aggregate is: a partial with a zero, a merge, an inverse where one exists, and a presentation.

A partial is what rows leave behind. Merging partials is commutative and associative, so that rows may be cut into
tasks, epochs and generations in any way, and come together in any order.

>>> from penstock.model.aggregates import avg
>>> mean, at = avg("price"), Origin(at=0, partition=0, offset=0)
>>> mean.present(mean.merge(mean.lift((10,), at), mean.lift((20,), at)))
15.0
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import MISSING, dataclass, fields
from typing import Any, ClassVar, NamedTuple, TypeAlias

from penstock.errors import DefinitionError

#: A value of a column: int, float, str, bool, bytes, Decimal, a list, or None. Dates are days, timestamps µs.
Value: TypeAlias = object
#: What an aggregate keeps of rows. Its form is the aggregate's own matter; it is never changed in place.
Partial: TypeAlias = Any


class Origin(NamedTuple):
    """Where a row comes from: its event time in µs, and its position in the log.

    `ordinal` orders the rows that were made of one event.
    """

    at: int
    partition: int
    offset: int
    ordinal: int = 0


@dataclass(frozen=True, kw_only=True, repr=False)
class Aggregate(ABC):
    """One aggregate of a view. `where` filters the rows it takes; the caller applies it before `lift`."""

    #: The constructor that users call, without `ps.`.
    word: ClassVar[str]
    #: False for a sketch; then `tolerance` says how far the answer may be off.
    exact: ClassVar[bool] = True

    where: str | None = None

    def __post_init__(self) -> None:
        for text in (*self.inputs, *(() if self.where is None else (self.where,))):
            if not isinstance(text, str) or not text.strip():
                raise DefinitionError(
                    f"ps.{self.word} takes SQL text, and got {text!r}",
                    hint='write an expression over the columns, for example "price * 2"',
                )

    @property
    @abstractmethod
    def inputs(self) -> tuple[str, ...]:
        """The SQL texts of the values that `lift` takes."""

    @property
    def tolerance(self) -> str | None:
        """How far the answer may be from the exact one, in words; None where it is exact."""
        return None

    @abstractmethod
    def result_type(self, types: tuple[str, ...]) -> str:
        """The type of the answer, given the types of the inputs; refuses those that it cannot take."""

    @abstractmethod
    def zero(self) -> Partial:
        """The partial of no rows."""

    @abstractmethod
    def lift(self, values: tuple[Value, ...], origin: Origin) -> Partial:
        """The partial of one row."""

    @abstractmethod
    def merge(self, a: Partial, b: Partial) -> Partial:
        """The partial of the rows of both. Changes neither."""

    def inverse(self, p: Partial) -> Partial:
        """The partial that merges with `p` to zero."""
        raise DefinitionError(
            f"{self.word} has no inverse", hint="the form that takes retractions has one: see retractable()"
        )

    @abstractmethod
    def present(self, p: Partial) -> Value:
        """The answer."""

    @abstractmethod
    def retractable(self) -> Aggregate:
        """The form of this aggregate that takes signed rows; refused where there is none."""

    def in_batch(self, exact: Aggregate) -> Aggregate:
        """This one live, the exact one in batch runs: `ps.approx_distinct("u").in_batch(ps.count_distinct("u"))`.

        The view gets one more column, which says of each row whether its answer is exact.
        """
        from penstock.model.aggregates.paired import Paired

        return Paired(self, exact, where=self.where)

    def describe(self) -> str:
        """A stable text that says all that the answer depends on: part of a view's fingerprint."""
        return repr(self)

    def __repr__(self) -> str:
        return f"ps.{self.word}({', '.join(self._arguments())})"

    def _arguments(self) -> Iterable[str]:
        """The arguments as a user writes them: the required ones and `x` by position, the others where they differ."""
        for field in sorted(fields(self), key=lambda field: field.name == "where"):
            value = getattr(self, field.name)
            if field.default is MISSING or (field.name == "x" and value is not None):
                yield repr(value)
            elif value != field.default:
                yield f"{field.name}={value!r}"


def refuse_type(aggregate: Aggregate, kind: str, allowed: str, hint: str | None = None) -> DefinitionError:
    """The error for an input of a type that the aggregate cannot take."""
    article = "an" if kind[0] in "aeiou" else "a"
    return DefinitionError(
        f"{aggregate!r} cannot take {article} {kind}", detail=f"{aggregate.word} takes {allowed}", hint=hint
    )
