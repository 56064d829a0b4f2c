"""A join with a table that has versions, on columns: a step gives the events that the watermark has passed.

Each comes with the version that was valid at its time. The state has the events that wait, by time, and the versions,
by key. A version is due when the watermark has passed the time of the next one: no event needs it then. So of each key
only the newest version stays, and none of a key that is deleted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Final

import numpy as np
import polars as pl

from penstock.kernel.expressions import dtype
from penstock.kernel.operators.base import (
    DUE_MARK,
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
from penstock.kernel.operators.join import UNMATCHED
from penstock.kernel.operators.join_pairs import Numbers, comparable
from penstock.kernel.operators.join_retractions import STATUS, Retracted, retracted
from penstock.kernel.operators.join_side import AT, PLACE, JoinSide
from penstock.kernel.plan import END, POSITION, START, nothing
from penstock.model.join import NOT_THERE, StreamJoin

LEFT, VERSIONS = "left", "versions"
#: The time after which a version is not needed, as the step finds it.
_DUE: Final = "__due_now"


@dataclass(frozen=True)
class AsOfStep:
    """A join with versions, compiled."""

    few_rows: ClassVar[int] = 500_000

    join: StreamJoin

    @cached_property
    def sides(self) -> tuple[JoinSide, JoinSide]:
        return JoinSide(self.join, 0), JoinSide(self.join, 1)

    @cached_property
    def _versions_schema(self) -> dict[str, pl.DataType]:
        return {**self.sides[1].rows_schema, DUE_MARK: pl.Int64()}

    @cached_property
    def kinds(self) -> Mapping[str, StateKind]:
        table = self.sides[1]
        versions = StateKind(VERSIONS, tuple(table.keys), (AT, *PLACE), self._versions_schema)
        return {LEFT: self.sides[0].kind, VERSIONS: versions}

    def step(
        self,
        rows: Sequence[pl.DataFrame],
        state: Mapping[str, KeyedRows],
        time: OperatorTime,
        emit: Emit | None = None,
    ) -> Stepped:
        """One commit. What comes out is in the order of event time."""
        arrived = [side.arrivals(rows[side.number], time.before) for side in self.sides]
        events = self._events(arrived[0][0], state[LEFT])
        ready = self._ready(events.rows, state[LEFT], time)
        known = self._versions(arrived[1][0], ready, state[VERSIONS])
        versions, numbers = self._found(known.rows.filter(pl.col(STATUS) >= 0), ready)
        unmatched = pl.concat([one.unmatched.select(POSITION) for one in (events, known)])
        dead = unmatched.with_columns(pl.lit(NOT_THERE).alias("__reason"))
        taken = known.rows.filter(pl.col(STATUS) < 0)
        return Stepped(
            self._output(ready, versions, numbers),
            {
                LEFT: self._left_change(events.rows, time),
                VERSIONS: self._versions_change(versions, taken, state[VERSIONS], time),
            },
            pl.concat([late for _, late in arrived]).unique(maintain_order=True),
            dead.select(*rejected_schema()).unique(maintain_order=True),
            nothing(FAILED),
            (AT, *PLACE),
            {UNMATCHED: unmatched.height} if unmatched.height else {},
        )

    def _compared(self, side: int) -> list[str]:
        """The columns by which a retraction finds its row."""
        return [*self.sides[side].keys, AT, *(column_name(name) for name in self.join.compared(side))]

    # Events

    def _events(self, arrivals: pl.DataFrame, state: KeyedRows) -> Retracted:
        """The events that came, and those that wait with the keys of retractions."""
        side = self.sides[0]
        taking = arrivals.filter(pl.col(SIGN) < 0).select(*side.keys).unique()
        waiting = state.of(taking).select(*side.rows_schema) if taking.height else nothing(side.rows_schema)
        return retracted(arrivals, waiting, self._compared(0))

    def _ready(self, events: pl.DataFrame, state: KeyedRows, time: OperatorTime) -> pl.DataFrame:
        """The events that the watermark passes in this commit, in the order of their times."""
        side = self.sides[0]
        if time.before == time.after:
            return nothing(side.rows_schema)
        over = side.over.is_between(time.before, time.after, closed="right")
        came = events.filter((pl.col(STATUS) == 1) & over).select(*side.rows_schema)
        waited = state.ending(time.before, time.after + side.stretch).select(*side.rows_schema).filter(over)
        gone = events.filter(pl.col(STATUS) == -1).select(PLACE)
        waited = waited.join(gone, on=PLACE, how="anti") if gone.height else waited
        return pl.concat([came, waited]).sort(AT, *PLACE)

    def _left_change(self, events: pl.DataFrame, time: OperatorTime) -> StateChange:
        side = self.sides[0]
        put = side.stretched(events.filter((pl.col(STATUS) == 1) & (side.over > time.after)))
        gone = side.stretched(events.filter(pl.col(STATUS) == -1))
        identity = [*side.kind.identity, START, END]
        return StateChange(put.select(*side.kind.schema), gone.select(*identity) if gone.height else None)

    # Versions

    def _versions(self, arrivals: pl.DataFrame, ready: pl.DataFrame, state: KeyedRows) -> Retracted:
        """The versions of the keys that have new ones, and of those whose events are ready."""
        keys = list(self.sides[1].keys)
        wanted = pl.concat([arrivals.select(keys), ready.select(keys).drop_nulls()]).unique()
        stored = state.of(wanted) if wanted.height else nothing(self._versions_schema)
        came = arrivals.with_columns(pl.lit(None, pl.Int64).alias(DUE_MARK)).select(*self._versions_schema, SIGN)
        return retracted(came, stored.select(*self._versions_schema), self._compared(1))

    def _found(self, versions: pl.DataFrame, ready: pl.DataFrame) -> tuple[pl.DataFrame, Numbers]:
        """Versions in the order of their keys and times, and the number of the one that each event finds; -1 for none.

        `__due_now` is when each version is due from here on: as soon as the watermark has passed the next one, or the
        version itself if it is a deletion.
        """
        if not versions.height:
            return versions.with_columns(pl.lit(None, pl.Int64).alias(_DUE)), np.full(ready.height, -1)
        (keys, times), (event_keys, event_times) = self._numbered(versions, ready)
        span = max(int(times.max()), int(event_times.max(initial=0))) + 1
        places = keys * span + times
        order = np.lexsort((*_varying(versions.select(*reversed(PLACE))), places))
        versions, keys, places = versions[pl.Series(order)], keys[order], places[order]
        gone = np.zeros(versions.height, np.bool_)
        if self.join.deleted is not None:
            gone = versions[column_name(self.join.deleted)].fill_null(value=False).to_numpy()
        has_next = np.append(keys[1:] == keys[:-1], False)
        at = versions[AT].to_numpy()
        due = np.where(gone, at, np.roll(at, -1)) + 1
        versions = versions.with_columns(pl.when(pl.Series(gone | has_next)).then(pl.Series(due)).alias(_DUE))
        numbers = np.searchsorted(places, event_keys * span + event_times, side="right") - 1
        fits = (numbers >= 0) & (keys[numbers] == event_keys) & ~gone[numbers]
        return versions, np.where(fits, numbers, -1)

    def _numbered(self, versions: pl.DataFrame, ready: pl.DataFrame) -> list[tuple[Numbers, Numbers]]:
        """Versions and events by numbers: those of their keys, equal if the keys are, and the ranks of their times."""
        keys = list(self.sides[1].keys)
        rows = [comparable(frame.select(*keys), keys) for frame in (versions, ready)]
        known = rows[0].select(keys).unique().with_row_index("__key")
        numbers = [frame.join(known, on=keys, how="left", maintain_order="left")["__key"] for frame in rows]
        ranks = np.unique(np.concatenate([versions[AT].to_numpy(), ready[AT].to_numpy()]), return_inverse=True)[1]
        parts = np.split(ranks, [versions.height])
        return [
            (number.fill_null(known.height).cast(pl.Int64).to_numpy(), part)
            for number, part in zip(numbers, parts, strict=True)
        ]

    def _versions_change(
        self, versions: pl.DataFrame, taken: pl.DataFrame, state: KeyedRows, time: OperatorTime
    ) -> StateChange:
        """What a step does to the versions: `taken` are those that were taken back."""
        is_over = (pl.col(_DUE) <= time.after).fill_null(value=False)
        is_new = (pl.col(STATUS) == 1) | pl.col(_DUE).ne_missing(pl.col(DUE_MARK))
        put = versions.filter(is_new & ~is_over).with_columns(pl.col(_DUE).alias(DUE_MARK))
        identity = self.kinds[VERSIONS].identity
        gone = [taken.select(identity), versions.filter((pl.col(STATUS) == 0) & is_over).select(identity)]
        if time.before < time.after:
            due = state.due(time.after, time.now)
            for seen in (versions, taken):
                due = due.join(seen.select(PLACE), on=PLACE, how="anti") if due.height and seen.height else due
            gone.append(due.select(identity))
        removed = pl.concat(gone)
        return StateChange(put.select(*self._versions_schema), removed if removed.height else None)

    # What comes out

    def _output(self, ready: pl.DataFrame, versions: pl.DataFrame, numbers: Numbers) -> pl.DataFrame:
        if self.join.how == "inner":
            ready, numbers = ready.filter(pl.Series(numbers >= 0, dtype=pl.Boolean)), numbers[numbers >= 0]
        indexes = pl.Series(numbers, dtype=pl.Int64)
        indexes = indexes.zip_with(indexes >= 0, pl.Series([None], dtype=pl.Int64).new_from_index(0, len(indexes)))
        columns = []
        for name, side, own in self.join.gives:
            column = ready[column_name(own)] if side != 1 else versions[column_name(own)].gather(indexes)
            columns.append(column.cast(dtype(self.join.schema.type_of(name))).alias(name))
        sign = pl.lit(1, pl.Int8).alias(SIGN)
        return pl.DataFrame([*columns, *ready.select(AT, *PLACE).get_columns()]).with_columns(sign)


def _varying(rows: pl.DataFrame) -> list[Numbers]:
    """The columns of rows that are not the same everywhere: the others do not matter for their order."""
    columns = (rows[name].to_numpy() for name in rows.columns)
    return [column for column in columns if column.min() != column.max()]
