"""A join of two streams on columns: a step gives the pairs that its rows make with those before, and with each other.

With L and R as before the commit that is ΔL⋈R + L⋈ΔR + ΔL⋈ΔR. Rows that wait are found by key. A row that is over comes
out alone, if the join gives such rows and it has found no partner, and is forgotten.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Final

import numpy as np
import polars as pl

from penstock.kernel.operators.base import (
    FAILED,
    SIGN,
    Emit,
    KeyedRows,
    OperatorTime,
    StateChange,
    StateKind,
    Stepped,
    column_name,
    rejected_schema,
)
from penstock.kernel.operators.join_output import PLACES, JoinedRows, output
from penstock.kernel.operators.join_pairs import CANDIDATES, ROW, Numbers, PairFinder, comparable
from penstock.kernel.operators.join_retractions import STATUS, Retracted, retracted
from penstock.kernel.operators.join_side import AT, FOUND, PLACE, JoinSide
from penstock.kernel.plan import END, POSITION, START, nothing
from penstock.model.join import LEFT_ONLY, NOT_THERE, StreamJoin

#: How many partners a row has after the step.
_NOW: Final = "__now"
#: The counter of retractions whose row is not there.
UNMATCHED: Final = "unmatched_retractions"


@dataclass(frozen=True)
class JoinStep:
    """A join of streams, compiled. `candidates` bounds how many possible pairs are held at a time."""

    few_rows: ClassVar[int] = 500_000

    join: StreamJoin
    candidates: int = CANDIDATES

    @cached_property
    def sides(self) -> tuple[JoinSide, JoinSide]:
        return JoinSide(self.join, 0), JoinSide(self.join, 1)

    @cached_property
    def kinds(self) -> Mapping[str, StateKind]:
        return {side.name: side.kind for side in self.sides}

    def step(
        self,
        rows: Sequence[pl.DataFrame],
        state: Mapping[str, KeyedRows],
        time: OperatorTime,
        emit: Emit | None = None,
    ) -> Stepped:
        """One commit. What comes out is sorted by the places of the left row and of the right one; nulls stand last."""
        chunks: list[pl.DataFrame] = []
        arrived = [side.arrivals(rows[side.number], time.before) for side in self.sides]
        arrivals = [on_time for on_time, _ in arrived]
        taken = [self._taken(side, arrivals, state[side.name]) for side in self.sides]
        tables = [self._with_over(side, taken[side.number].rows, state[side.name], time) for side in self.sides]
        settled, last = self._give(tables, time, chunks.append if emit is None else emit)
        unmatched = pl.concat([one.unmatched.select(POSITION) for one in taken])
        dead = unmatched.with_columns(pl.lit(NOT_THERE).alias("__reason"))
        return Stepped(
            pl.concat([*chunks, last]) if chunks else last,
            {side.name: _change(side, settled[side.number], time) for side in self.sides},
            pl.concat([late for _, late in arrived]).unique(maintain_order=True),
            dead.select(*rejected_schema()).unique(maintain_order=True),
            nothing(FAILED),
            (*PLACES[0], *PLACES[1], SIGN),
            {UNMATCHED: unmatched.height} if unmatched.height else {},
        )

    def _give(
        self, tables: list[pl.DataFrame], time: OperatorTime, emit: Emit
    ) -> tuple[tuple[pl.DataFrame, pl.DataFrame], pl.DataFrame]:
        """Gives the rows that come out, a slice of the left rows at a time: all but the last chunk go to `emit`.

        It returns the rows of both sides with the number of partners that they have now, and the last chunk.
        """
        finder = PairFinder(self.join, tuple(self.sides[0].keys), self.candidates)
        compared = [comparable(table.select(*finder.keys, AT, STATUS), finder.keys) for table in tables]
        slices = [slice(0, tables[0].height)]
        if not finder.fits(*compared):
            tables = [table.sort(PLACE) for table in tables]
            compared = [comparable(table.select(*finder.keys, AT, STATUS), finder.keys) for table in tables]
            slices = finder.slices(*compared)
            compared[1] = finder.in_cells(compared[1])
        changes = [np.zeros(table.height, np.int64) for table in tables]
        pending: pl.DataFrame | None = None
        for some in slices:
            if pending is not None:
                emit(pending)
            length = some.stop - some.start
            left = compared[0].slice(some.start, length).with_columns(pl.col(ROW) - some.start)
            pairs = self._pairs(finder, left, compared[1])
            for side, change in zip(self.sides, (changes[0][some], changes[1]), strict=True):
                if side.counts:
                    change += _counts(side, pairs, len(change))
            own = _settled(self.sides[0], tables[0].slice(some.start, length), changes[0][some])
            both = (own, tables[1])
            pending = output(self.join, both, self._joined(pairs, both, time))
        assert pending is not None
        settled = [_settled(side, tables[side.number], changes[side.number]) for side in self.sides]
        both = (settled[0], settled[1])
        alone = self._alone(self.sides[1], both, time)
        if len(alone.signs):
            emit(pending)
            pending = output(self.join, both, alone)
        return both, pending

    # Rows

    def _taken(self, side: JoinSide, arrivals: Sequence[pl.DataFrame], state: KeyedRows) -> Retracted:
        """The rows of a side that may be part of a change: those that came, and those that waited for them."""
        own, others = arrivals[side.number], arrivals[1 - side.number]
        keys = [others.select(*side.keys).drop_nulls()]
        if side.signed:
            keys.append(own.filter(pl.col(SIGN) < 0).select(*side.keys))
        wanted = pl.concat(keys).unique()
        waiting = state.of(wanted).select(*side.rows_schema) if wanted.height else nothing(side.rows_schema)
        if side.signed:
            compared = [*side.keys, AT, *(column_name(name) for name in self.join.compared(side.number))]
            return retracted(own, waiting, compared)
        status = [pl.lit(number, pl.Int8).alias(STATUS) for number in (1, 0)]
        came = own.drop(SIGN)
        rows = pl.concat([came.with_columns(status[0]), waiting.with_columns(status[1])], rechunk=True)
        return Retracted(rows, came.clear())

    def _with_over(self, side: JoinSide, rows: pl.DataFrame, state: KeyedRows, time: OperatorTime) -> pl.DataFrame:
        """The rows of a side, and those that are over by now and have to come out alone. They find no partner."""
        if not side.gives_alone or time.before == time.after:
            return rows
        over = state.ending(time.before, time.after + side.stretch).select(*side.rows_schema)
        known = rows.lazy().filter((pl.col(STATUS) <= 0) & _is_over(side, time)).select(PLACE).collect()
        over = over.filter(_is_over(side, time) & (pl.col(FOUND) == 0)).join(known, on=PLACE, how="anti")
        return pl.concat([rows, over.with_columns(pl.lit(0, pl.Int8).alias(STATUS))], rechunk=True)

    # What comes out

    def _pairs(self, finder: PairFinder, left: pl.DataFrame, right: pl.DataFrame) -> JoinedRows:
        """The pairs that come or go. One whose rows come and go in the same commit does neither."""
        changed = [side.filter(pl.col(STATUS) != 0) for side in (left, right)]
        stays = left.filter(pl.col(STATUS) == 0)
        parts = [finder.pairs(changed[0], right), finder.pairs(stays, changed[1])]
        numbers = [np.concatenate([one[side] for one in parts]) for side in (0, 1)]
        if not self.join.signed:
            return JoinedRows(numbers[0], numbers[1], np.ones(len(numbers[0]), np.int8))
        signs = np.sign(left[STATUS].to_numpy()[numbers[0]] + right[STATUS].to_numpy()[numbers[1]])
        return JoinedRows(numbers[0], numbers[1], signs).chosen(signs != 0)

    def _joined(self, pairs: JoinedRows, tables: tuple[pl.DataFrame, pl.DataFrame], time: OperatorTime) -> JoinedRows:
        """What comes out of left rows: pairs, rows with a partner, or rows that are over without one."""
        left, right = tables
        parts = [pairs.chosen(np.zeros(0, np.int64)) if self.join.how in LEFT_ONLY else pairs]
        if self.join.how == "semi":
            had, has = (pl.col(STATUS) <= 0) & (pl.col(FOUND) > 0), (pl.col(STATUS) >= 0) & (pl.col(_NOW) > 0)
            sign = left.select(has.cast(pl.Int8) - had.cast(pl.Int8)).to_series().to_numpy()
            (numbers,) = np.nonzero(sign)
            parts.append(JoinedRows(numbers, np.full(len(numbers), right.height), sign[numbers]))
        return JoinedRows.together([*parts, self._alone(self.sides[0], tables, time)])

    def _alone(self, side: JoinSide, tables: tuple[pl.DataFrame, pl.DataFrame], time: OperatorTime) -> JoinedRows:
        """The rows of a side that are over and have no partner."""
        numbers: Numbers = np.zeros(0, np.int64)
        if side.gives_alone and time.before < time.after:
            alone = _is_over(side, time) & (pl.col(STATUS) >= 0) & (pl.col(_NOW) == 0)
            (numbers,) = np.nonzero(tables[side.number].select(alone).to_series().to_numpy())
        none = np.full(len(numbers), tables[1 - side.number].height)
        one, other = (numbers, none) if side.number == 0 else (none, numbers)
        return JoinedRows(one, other, np.ones(len(numbers), np.int8))


def _counts(side: JoinSide, pairs: JoinedRows, size: int) -> Numbers:
    """How many partners each row of a side gets, or loses."""
    numbers = pairs.sides[side.number]
    change = np.bincount(numbers[pairs.signs > 0], minlength=size)
    return change - np.bincount(numbers[pairs.signs < 0], minlength=size) if side.counts_exactly else change


def _settled(side: JoinSide, rows: pl.DataFrame, change: Numbers) -> pl.DataFrame:
    """The rows of a side with the number of partners that they have now."""
    if not side.counts:
        return rows
    now = pl.col(FOUND) + pl.Series(change)
    return rows.with_columns((now if side.counts_exactly else now.clip(0, 1)).alias(_NOW))


def _is_over(side: JoinSide, time: OperatorTime) -> pl.Expr:
    """Whether a row is over by this commit."""
    return side.over.is_between(time.before, time.after, closed="right")


def _change(side: JoinSide, rows: pl.DataFrame, time: OperatorTime) -> StateChange:
    """What a step does to the state of a side."""
    put, gone = pl.col(STATUS) == 1, pl.col(STATUS) == -1
    if side.counts:
        put |= (pl.col(STATUS) == 0) & (pl.col(_NOW) != pl.col(FOUND))
    if side.drops_found:
        put &= pl.col(_NOW) == 0
        gone |= (pl.col(STATUS) == 0) & (pl.col(_NOW) > 0)
    kept = rows.filter(put & (side.over > time.after))
    if side.counts:
        kept = kept.with_columns(pl.col(_NOW).alias(FOUND))
    removed = nothing(side.rows_schema)
    if side.signed or side.drops_found:
        removed = rows.filter(gone)
    identity = [*side.kind.identity, START, END]
    return StateChange(
        side.stretched(kept).select(*side.kind.schema),
        side.stretched(removed).select(*identity) if removed.height else None,
    )
