"""One side of a join of streams on columns: the rows that come, those that wait, and until when they do."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import polars as pl

from penstock.kernel.expressions import dtype
from penstock.kernel.operators.base import SIGN, StateKind, column_name, key_name, rejected_schema
from penstock.kernel.operators.rows import NTH
from penstock.kernel.plan import END, POSITION, START, Plan, nothing
from penstock.model.join import LEFT_ONLY, StreamJoin, late_reason
from penstock.model.time import SECOND, Duration, Instant

AT: Final = "__at"
#: Where a row comes from. No two rows of a side share it.
PLACE: Final = (*POSITION, NTH)
#: How many partners a row has found. Where none can be taken back: whether it has found any.
FOUND: Final = "__found"
NAMES: Final = ("left", "right")
#: State expires in stretches of time: how many of them make up the time that a row waits.
STRETCHES: Final = 8


@dataclass(frozen=True)
class JoinSide:
    """A side of a join, compiled. `number` is 0 for the left one and 1 for the right one."""

    join: StreamJoin
    number: int

    @property
    def name(self) -> str:
        return NAMES[self.number]

    @cached_property
    def keys(self) -> dict[str, pl.DataType]:
        types = Plan(self.join.view(self.number)).key_types.values()
        return {key_name(number): kind for number, kind in enumerate(types)}

    @cached_property
    def columns(self) -> dict[str, pl.DataType]:
        schema = self.join.flows[self.number].schema
        assert schema is not None
        return {column_name(name): dtype(schema.type_of(name)) for name in self.join.columns(self.number)}

    @cached_property
    def signed(self) -> bool:
        return self.join.is_signed(self.number)

    @cached_property
    def gives_alone(self) -> bool:
        return self.join.gives_alone(self.number)

    @cached_property
    def counts(self) -> bool:
        """Whether it matters how many partners a row has found."""
        if self.join.as_of:
            return False
        return self.gives_alone or (self.join.how == "semi" and self.number == 0)

    @cached_property
    def counts_exactly(self) -> bool:
        """Whether partners can be taken back, so that it matters how many there are."""
        return self.counts and self.join.is_signed(1 - self.number)

    @cached_property
    def drops_found(self) -> bool:
        """Whether a row that has found a partner need not wait any longer."""
        return self.join.how in LEFT_ONLY and self.number == 0 and not self.join.signed

    @cached_property
    def rows_schema(self) -> dict[str, pl.DataType]:
        """The columns of rows, whether they have just come or have waited."""
        place = {"__source": pl.Int32(), "__partition": pl.Int32(), "__offset": pl.Int64(), NTH: pl.Int32()}
        match_count = {FOUND: pl.Int64()} if self.counts else {}
        return {**self.keys, **place, AT: pl.Int64(), **self.columns, **match_count}

    @cached_property
    def kind(self) -> StateKind:
        schema = {**self.rows_schema, START: pl.Int64(), END: pl.Int64()}
        append_only = not self.signed and not self.counts
        return StateKind(
            self.name, tuple(self.keys), PLACE, schema, by_time=True, append_only=append_only, stretch=self.stretch
        )

    # Time

    @cached_property
    def stretch(self) -> Duration:
        """The length of a stretch of time in which rows are forgotten together."""
        window = self.join.window
        waits = self.join.wait(0) + self.join.wait(1) if window is None else window.size
        return max(waits // STRETCHES, SECOND)

    @property
    def over(self) -> pl.Expr:
        """The instant at which a row is over, as `StreamJoin.over` has it."""
        at, window = pl.col(AT), self.join.window
        if window is None:
            return at + (self.join.wait(self.number) + 1)
        return at - (at - window.offset) % window.size + window.size

    def stretched(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Rows with the stretch of time at whose end they are forgotten: they are over by then."""
        start = (self.over - 1) // self.stretch * self.stretch
        return rows.with_columns(start.alias(START), (start + self.stretch).alias(END))

    # Rows

    def arrivals(self, rows: pl.DataFrame, before: Instant) -> tuple[pl.DataFrame, pl.DataFrame]:
        """The rows that are on time, and the position and reason of those that are not.

        Rows that have no partner because a key is null, and that do not come out alone, are not needed.
        """
        own_rows = rows.select(*(self._given(name, kind, rows) for name, kind in self.rows_schema.items()), SIGN)
        late = nothing(rejected_schema())
        oldest = own_rows[AT].min()
        if isinstance(oldest, int) and oldest < before:
            late = self._late(own_rows.filter(pl.col(AT) < before), before)
            own_rows = own_rows.filter(pl.col(AT) >= before)
        if not self.gives_alone and any(own_rows[name].null_count() for name in self.keys):
            own_rows = own_rows.drop_nulls(list(self.keys))
        return own_rows, late

    def _given(self, name: str, kind: pl.DataType, rows: pl.DataFrame) -> pl.Expr:
        """A column of rows that come. All have found nothing yet, and are mostly the only ones of their event."""
        if name == FOUND or (name not in rows.columns and name == NTH):
            return pl.lit(0, kind).alias(name)
        return pl.col(name) if rows.schema[name] == kind else pl.col(name).cast(kind)

    def _late(self, rows: pl.DataFrame, before: Instant) -> pl.DataFrame:
        times = rows[AT].unique()
        reasons = pl.Series([late_reason(at, before) for at in times], dtype=pl.String)
        return rows.select(*POSITION, pl.col(AT).replace_strict(times, reasons).alias("__reason"))
