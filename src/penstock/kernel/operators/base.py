"""What keyed operators have in common: the rows that come to them, the state that they keep, and what a step gives.

An operator is stepped once per commit: `step(rows, state, time) -> Stepped`. What a step does to a key depends on the
rows and the state of that key alone. So the keys may be split over processes, and nobody notices.

The rows that come to an operator have these columns: `__at` (null without an event time), `__source`, `__partition`,
`__offset`, `__sign` (+1, or -1 for a row that takes an earlier one back), the keys as `k:0`, `k:1` and so on, and the
columns of the event as `c:<name>`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final, Protocol, TypeAlias

import polars as pl

from penstock.model.time import Duration, Instant

SIGN: Final = "__sign"
#: Takes a chunk of the rows that come out of a step.
Emit: TypeAlias = Callable[[pl.DataFrame], None]
#: Columns of state with the time at which a row is due: by the watermark, and by the clock.
DUE_MARK, DUE_CLOCK = "__due_mark", "__due"


def key_name(number: int) -> str:
    """The column of a key."""
    return f"k:{number}"


def column_name(name: str) -> str:
    """The column with a column of the event."""
    return f"c:{name}"


@dataclass(frozen=True)
class OperatorTime:
    """The watermark of an operator's input when the commit began and after it; and the commit's clock."""

    before: Instant
    after: Instant
    now: Instant


@dataclass(frozen=True)
class StateKind:
    """One kind of rows that an operator keeps. `keys` and `place` identify a row.

    `by_time`: rows have `__start` and `__end`, and those whose `__end` the watermark has reached are gone by then. They
    may be due up to `stretch` before their `__end`.
    `append_only`: no row is replaced or removed otherwise. A look-up of keys may then return rows of other keys too.
    """

    name: str
    keys: tuple[str, ...]
    place: tuple[str, ...]
    schema: Mapping[str, pl.DataType]
    by_time: bool = False
    append_only: bool = False
    stretch: Duration = 0

    @property
    def identity(self) -> list[str]:
        """The columns that identify a row."""
        return [*self.keys, *self.place]


class KeyedRows(Protocol):
    """The rows of one kind of state, as the last commit left them."""

    def of(self, keys: pl.DataFrame) -> pl.DataFrame:
        """All rows of these keys, each named once."""

    def ending(self, after: Instant, through: Instant) -> pl.DataFrame:
        """The rows whose `__end` lies after one instant, up to another."""

    def due(self, mark: Instant, now: Instant) -> pl.DataFrame:
        """The rows that are due by the watermark (`__due_mark`) or by the clock (`__due`)."""


@dataclass(frozen=True)
class StateChange:
    """What a step does to the rows of one kind: rows that are new or replaced, and identities of those that go."""

    put: pl.DataFrame
    gone: pl.DataFrame | None = None


@dataclass(frozen=True)
class Stepped:
    """What a step gives.

    `rows` are what comes out, in an order that does not depend on how keys are split: the columns of the output by
    their names, and `__sign`. If they are many, this is the last chunk, and those before it went to `emit`. `order` are
    the columns to sort by when the outputs of several processes are put together. `late` and `dead` have the position
    of rows that were rejected (`__source`, `__partition`, `__offset`) and `__reason`; `failed` are dead letters that no
    row caused, as a timer: `row` (JSON) and `__reason`.
    """

    rows: pl.DataFrame
    state: Mapping[str, StateChange]
    late: pl.DataFrame
    dead: pl.DataFrame
    failed: pl.DataFrame
    order: tuple[str, ...] = ()
    counters: Mapping[str, int] = field(default_factory=dict)


def rejected_schema() -> dict[str, pl.DataType]:
    """The columns of rows that an operator rejects."""
    return {"__source": pl.Int32(), "__partition": pl.Int32(), "__offset": pl.Int64(), "__reason": pl.String()}


FAILED: Final[Mapping[str, pl.DataType]] = {"row": pl.String(), "__reason": pl.String()}


class KernelOperator(Protocol):
    """An operator compiled for columns.

    `few_rows`: up to this number of rows, one process is faster than a Spark job.
    """

    few_rows: ClassVar[int]

    @property
    def kinds(self) -> Mapping[str, StateKind]:
        """The kinds of state that it keeps."""

    def step(
        self,
        rows: Sequence[pl.DataFrame],
        state: Mapping[str, KeyedRows],
        time: OperatorTime,
        emit: Emit | None = None,
    ) -> Stepped:
        """One commit. `rows` has a frame for each input of the operator: a join has two.

        `emit` takes chunks of a large output as they are made. Without it all rows are in the result.
        """
