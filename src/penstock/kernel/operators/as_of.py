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
from penstock.kernel.operators.join_pairs import comparable
from penstock.kernel.operators.join_retractions import STATUS, Retracted, retracted
from penstock.kernel.operators.join_side import AT, PLACE, JoinSide
from penstock.kernel.plan import END, POSITION, START, nothing
from penstock.model.join import NOT_THERE, StreamJoin

LEFT, VERSIONS = "left", "versions"
#: The number of the version that an event finds.
_VERSION: Final = "__version"
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
        versions = self._versions(arrived[1][0], ready, state[VERSIONS])
        unmatched = pl.concat([one.unmatched.select(POSITION) for one in (events, versions)])
        dead = unmatched.with_columns(pl.lit(NOT_THERE).alias("__reason"))
        return Stepped(
            self._output(ready, versions.rows),
            {
                LEFT: self._left_change(events.rows, time),
                VERSIONS: self._versions_change(versions.rows, state[VERSIONS], time),
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
        """The versions of the keys that have new ones, and of those whose events are ready.

        They are in the order of their keys and times. `__due_now` is when each is due from here on.
        """
        keys = list(self.sides[1].keys)
        wanted = pl.concat([arrivals.select(keys), ready.select(keys).drop_nulls()]).unique()
        if not wanted.height:
            return Retracted(nothing({**self._versions_schema, STATUS: pl.Int8(), _DUE: pl.Int64()}), arrivals)
        stored = state.of(wanted)
        came = arrivals.with_columns(pl.lit(None, pl.Int64).alias(DUE_MARK)).select(*self._versions_schema, SIGN)
        found = retracted(came, stored.select(*self._versions_schema), self._compared(1))
        rows = found.rows[self._order(found.rows)]
        return Retracted(rows.with_columns(self._due(rows)), found.unmatched)

    def _order(self, rows: pl.DataFrame) -> pl.Series:
        """The numbers of rows in the order of keys, times and places."""
        keys = list(self.sides[1].keys)
        return comparable(rows.select(*keys, AT, *PLACE), keys).sort(*keys, AT, *PLACE)["__row"]

    def _due(self, rows: pl.DataFrame) -> pl.Series:
        """When each version is due: as soon as the watermark has passed the next one, or itself if it is a deletion."""
        keys = list(self.sides[1].keys)
        current = comparable(rows.select(*keys, AT), keys).filter(rows[STATUS] >= 0)
        due = current.select("__row", (pl.col(AT).shift(-1).over(keys) + 1).alias(_DUE))
        if self.join.deleted is not None:
            gone = rows[column_name(self.join.deleted)].fill_null(value=False).gather(due["__row"])
            due = due.with_columns(pl.when(gone).then(current[AT] + 1).otherwise(_DUE).alias(_DUE))
        numbers = pl.DataFrame({"__row": pl.int_range(rows.height, eager=True)})
        return numbers.join(due, on="__row", how="left", maintain_order="left")[_DUE]

    def _versions_change(self, versions: pl.DataFrame, state: KeyedRows, time: OperatorTime) -> StateChange:
        is_over = (pl.col(_DUE) <= time.after).fill_null(value=False)
        changed = (pl.col(STATUS) == 1) | ((pl.col(STATUS) == 0) & pl.col(_DUE).ne_missing(pl.col(DUE_MARK)))
        put = versions.filter(changed & ~is_over).with_columns(pl.col(_DUE).alias(DUE_MARK))
        identity = self.kinds[VERSIONS].identity
        gone = versions.filter((pl.col(STATUS) == -1) | ((pl.col(STATUS) == 0) & is_over)).select(identity)
        others = nothing({name: self._versions_schema[name] for name in identity})
        if time.before < time.after:
            others = state.due(time.after, time.now).join(versions.select(PLACE), on=PLACE, how="anti").select(identity)
        gone = pl.concat([gone, others])
        return StateChange(put.select(*self._versions_schema), gone if gone.height else None)

    # What comes out

    def _output(self, ready: pl.DataFrame, versions: pl.DataFrame) -> pl.DataFrame:
        versions = versions.filter(pl.col(STATUS) >= 0)
        ready = ready.with_columns(self._found(ready, versions))
        if self.join.how == "inner":
            ready = ready.filter(pl.col(_VERSION).is_not_null())
        columns = []
        for name, side, own in self.join.gives:
            column = ready[column_name(own)] if side != 1 else versions[column_name(own)].gather(ready[_VERSION])
            columns.append(column.cast(dtype(self.join.schema.type_of(name))).alias(name))
        sign = pl.lit(1, pl.Int8).alias(SIGN)
        return pl.DataFrame([*columns, *ready.select(AT, *PLACE).get_columns()]).with_columns(sign)

    def _found(self, ready: pl.DataFrame, versions: pl.DataFrame) -> pl.Series:
        """The number of the version that each event finds, null where there is none.

        Versions and events are sorted together: what an event finds is the last version of its key before it.
        """
        if not ready.height or not versions.height:
            return pl.Series(_VERSION, [None], pl.Int64).new_from_index(0, ready.height)
        keys = list(self.sides[1].keys)
        sorted_rows = pl.concat(
            [
                comparable(versions.select(*keys, AT, *PLACE), keys).with_columns(
                    pl.col("__row").alias(_VERSION), pl.lit(0, pl.Int8).alias("__kind")
                ),
                comparable(ready.select(*keys, AT, *PLACE), keys).with_columns(
                    pl.lit(None, pl.Int64).alias(_VERSION), pl.lit(1, pl.Int8).alias("__kind")
                ),
            ]
        ).sort(*keys, AT, "__kind", *PLACE)
        found = sorted_rows.with_columns(pl.col(_VERSION).forward_fill().over(keys)).filter(pl.col("__kind") == 1)
        numbers = found.sort("__row")[_VERSION]
        if self.join.deleted is not None:
            gone = versions[column_name(self.join.deleted)].fill_null(value=False).gather(numbers)
            numbers = pl.select(pl.when(gone).then(None).otherwise(numbers).alias(_VERSION)).to_series()
        return numbers
