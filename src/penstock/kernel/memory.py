"""State in this process: the open windows that the next commit may touch, or all that a view has."""

from __future__ import annotations

import polars as pl

from penstock.kernel.fire import Time, due
from penstock.kernel.plan import Plan, nothing
from penstock.kernel.step import Change


class Open:
    """Open windows, as the last commit left them."""

    def __init__(self, plan: Plan, live: pl.DataFrame | None = None) -> None:
        self.plan = plan
        self.live = nothing(plan.state_schema) if live is None else live
        self.ghosts = nothing(plan.ghost_schema)
        self.seen = nothing({**plan.key_types, "__seen": pl.Int64()})

    def at(self, windows: pl.DataFrame) -> pl.DataFrame:
        return _matching(self.live, windows)

    def of(self, keys: pl.DataFrame) -> pl.DataFrame:
        return _matching(self.live, keys)

    def ghosts_of(self, keys: pl.DataFrame) -> pl.DataFrame:
        return _matching(self.ghosts, keys)

    def seen_of(self, keys: pl.DataFrame) -> pl.DataFrame:
        return _matching(self.seen, keys)

    def due(self, time: Time) -> pl.DataFrame:
        return self.live.filter(due(self.plan, time))

    def apply(self, change: Change) -> None:
        """Replaces what a commit has changed."""
        self.live = pl.concat([_without(self.live, change.taken), change.live])
        self.ghosts = pl.concat([_without(self.ghosts, change.ghosts_taken), change.ghosts])
        if change.seen.height:
            self.seen = pl.concat([_without(self.seen, change.seen.select(self.plan.keys)), change.seen])


class Memory(Open):
    """All of a view's state: the closed windows too."""

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        self.final = nothing(plan.value_schema)

    def apply(self, change: Change) -> None:
        super().apply(change)
        self.final = pl.concat([self.final, change.closed.select(*self.plan.value_schema)])


def _matching(frame: pl.DataFrame, rows: pl.DataFrame) -> pl.DataFrame:
    """The rows that agree with one of `rows` in all its columns; all, if it has none."""
    return frame.join(rows, on=rows.columns, how="semi", nulls_equal=True) if rows.width and frame.height else frame


def _without(frame: pl.DataFrame, rows: pl.DataFrame) -> pl.DataFrame:
    """The other rows. Without columns to agree in, none are left."""
    if not rows.width:
        return frame.clear()
    return frame.join(rows, on=rows.columns, how="anti", nulls_equal=True) if rows.height else frame
