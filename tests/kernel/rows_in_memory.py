"""The state of an operator in memory, for tests."""

from __future__ import annotations

import polars as pl

from penstock.kernel.operators.base import DUE_CLOCK, DUE_MARK, StateChange, StateKind
from penstock.kernel.plan import END, nothing
from penstock.model.time import Instant


class RowsInMemory:
    """Rows of one kind of state in memory."""

    def __init__(self, kind: StateKind, rows: pl.DataFrame | None = None) -> None:
        self.kind = kind
        self.rows = nothing(kind.schema) if rows is None else rows

    def of(self, keys: pl.DataFrame) -> pl.DataFrame:
        if not self.kind.keys:
            return self.rows
        return self.rows.join(keys, on=list(self.kind.keys), how="semi", nulls_equal=True)

    def ending(self, after: Instant, through: Instant) -> pl.DataFrame:
        return self.rows.filter((pl.col(END) > after) & (pl.col(END) <= through))

    def due(self, mark: Instant, now: Instant) -> pl.DataFrame:
        times = {DUE_MARK: mark, DUE_CLOCK: now}
        return self.rows.filter(pl.any_horizontal(pl.col(name) <= times[name] for name in times if name in self.rows))

    def change(self, change: StateChange) -> None:
        """Takes what a step has changed."""
        by = self.kind.identity
        replaced = [change.put.select(by), *([] if change.gone is None else [change.gone.select(by)])]
        kept = self.rows.join(pl.concat(replaced), on=by, how="anti", nulls_equal=True)
        self.rows = pl.concat([kept, change.put.select(self.rows.columns)])

    def forget(self, mark: Instant) -> None:
        """Removes the rows whose time is over."""
        if self.kind.by_time:
            self.rows = self.rows.filter(pl.col(END) > mark)
