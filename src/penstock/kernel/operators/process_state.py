"""The state of a processor as a table: a row for each key, with a column for each state, and its timers."""

from __future__ import annotations

from typing import Any, Final

import polars as pl

from penstock.kernel.expressions import dtype
from penstock.kernel.operators.process_cells import CellFormat
from penstock.model.process import Process
from penstock.model.state import ListOf, MapOf, State
from penstock.model.time import Instant

#: The column with the timers of a key.
TIMERS: Final = "timers"
_TIMER: Final = pl.Struct({"name": pl.String(), "at": pl.Datetime("us", "UTC"), "clock": pl.String()})


def state_table(process: Process, rows: pl.DataFrame, now: Instant) -> pl.DataFrame:
    """What each key of a processor has, from the rows of its state. What is gone by now is not there."""
    states = process.shape.states
    format = CellFormat(states)
    columns: dict[str, list[Any]] = {name: [] for name in (*states, TIMERS)}
    kept = []
    for number, packed in enumerate(format.unpacked(rows["cell"].to_list())):
        cell = format.cell(packed)
        cell.prune(now)
        if cell.is_empty:
            continue
        kept.append(number)
        for name, state in states.items():
            columns[name].append(_shown(state, cell.states.get(name)))
        timers = sorted(cell.timers.items(), key=lambda timer: (timer[1], str(timer[0])))
        columns[TIMERS].append(
            [
                {"name": name if isinstance(name, str) else None, "at": at, "clock": clock}
                for (clock, name), at in timers
            ]
        )
    names = process.shape.key.names
    keys = rows[kept].select(pl.nth(number).alias(name) for number, name in enumerate(names))
    made = [pl.Series(name, columns[name], dtype=_type(state)) for name, state in states.items()]
    return pl.DataFrame([*keys.get_columns(), *made, pl.Series(TIMERS, columns[TIMERS], dtype=pl.List(_TIMER))])


def _shown(state: State[Any], held: Any) -> Any:
    if held is None:
        return None
    shown = state.shown(held)
    return [{"key": key, "value": value} for key, value in shown.items()] if isinstance(state, MapOf) else shown


def _type(state: State[Any]) -> pl.DataType:
    if isinstance(state, MapOf):
        return pl.List(pl.Struct({"key": dtype(state.key_kind.name), "value": dtype(state.kind.name)}))
    kind = dtype(state.kind.name)
    return pl.List(kind) if isinstance(state, ListOf) else kind
