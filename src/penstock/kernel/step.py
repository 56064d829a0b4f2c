"""One commit of one view: deltas in, changed state and panes out. The same wherever the state is kept.

The state is asked for just the rows that the deltas touch and those that time has made due; what comes back says which
stored rows are replaced, so that a store can write it in one transaction.

A view may forget keys (`Plan.forgets`). They go at the end of the commit whose watermark makes them old, so that state,
table and readers agree at every commit. Such a row is in `Change.taken` and in none of the frames that replace it. An
implementation of `State` then has two duties: `due` returns the stored rows for which `kernel.merge.is_forgotten` holds
at the watermark `time.after`, and applying a change removes all of `taken` that `live` does not hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import polars as pl

from penstock.kernel.fire import Time, fire
from penstock.kernel.merge import is_forgotten, merge, number, widen
from penstock.kernel.plan import END, START, Plan, nothing
from penstock.kernel.reduce import combine, late_schema
from penstock.model.windows import CountBased, Fixed, Global


class State(Protocol):
    """Where a view's open windows are kept. Frames have the plan's schemas."""

    def at(self, windows: pl.DataFrame) -> pl.DataFrame:
        """The stored rows of these windows (keys, `__start`, `__end`), each once. A window may be asked for twice."""

    def of(self, keys: pl.DataFrame) -> pl.DataFrame:
        """All stored rows of these keys. Without key columns: all rows."""

    def ghosts_of(self, keys: pl.DataFrame) -> pl.DataFrame:
        """The ghosts of these keys."""

    def seen_of(self, keys: pl.DataFrame) -> pl.DataFrame:
        """How many elements these keys had, for count windows: the keys and `__seen`."""

    def due(self, time: Time) -> pl.DataFrame:
        """The stored rows that time alone may have made ready, or forgotten (`kernel.fire.due`); more do no harm."""


@dataclass
class Change:
    """What a commit does to a view's state."""

    taken: pl.DataFrame  # stored rows (keys, start, end): `live` and `closed` replace them, others are removed
    live: pl.DataFrame
    closed: pl.DataFrame
    panes: pl.DataFrame
    late: pl.DataFrame  # positions of elements that only the merge could tell to be late
    ghosts_taken: pl.DataFrame  # by keys, start, end and index
    ghosts: pl.DataFrame
    seen: pl.DataFrame


def step(plan: Plan, deltas: Sequence[pl.DataFrame], state: State, time: Time, *, panes: bool = True) -> Change:
    """Merges a commit's deltas into the state and judges every trigger that may be ready.

    Without `panes` the state goes on as if windows had fired, and what they show is not made.
    """
    if not deltas:
        return advance(plan, None, state, time, panes=panes)
    # Where a delta is one row of a window, the merge brings the rows of a window together anyway.
    combined = pl.concat(deltas) if isinstance(plan.view.windows, Fixed | Global) else combine(plan, list(deltas))
    seen = None
    if isinstance(plan.view.windows, CountBased):
        combined, seen = number(plan, combined, state.seen_of(combined.select(plan.keys).unique()))
    change = advance(plan, widen(plan, combined, time.before), state, time, panes=panes)
    if seen is not None:
        change.seen = seen
    return change


def advance(plan: Plan, windowed: pl.DataFrame | None, state: State, time: Time, *, panes: bool = True) -> Change:
    """The same from deltas that know their windows."""
    by = [*plan.keys, START, END]
    rows = taken = nothing(plan.state_schema)
    ghosts = old_ghosts = nothing(plan.ghost_schema)
    late = nothing(late_schema())
    if windowed is not None:
        if plan.merging:
            keys = windowed.select(plan.keys).unique()
            taken, old_ghosts = state.of(keys), state.ghosts_of(keys)
        else:
            taken = state.at(windowed.select(by))
        merged = merge(plan, windowed, taken, old_ghosts, time.before, time.now)
        rows, ghosts, late = merged.rows.select(*plan.state_schema), merged.ghosts, merged.late
    waking = state.due(time)
    if taken.height:
        waking = waking.join(taken.select(by), on=by, how="anti", nulls_equal=True)
    if waking.height:
        rows, taken = pl.concat([rows, waking]), pl.concat([taken, waking])
        if plan.merging and plan.retracting:
            more = state.ghosts_of(waking.select(plan.keys).unique())
            more = more.join(old_ghosts, on=[*by, "__shown"], how="anti", nulls_equal=True)
            ghosts, old_ghosts = pl.concat([ghosts, more]), pl.concat([old_ghosts, more])
    fired = fire(plan, rows, ghosts, time, panes=panes)
    live = fired.live.filter(~is_forgotten(plan, time.after)) if plan.forgets else fired.live
    gone = old_ghosts.select(*by, "__shown")
    seen = nothing({**plan.key_types, "__seen": pl.Int64()})
    return Change(taken.select(by), live, fired.closed, fired.panes, late, gone, fired.ghosts, seen)
