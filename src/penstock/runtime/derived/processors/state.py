"""The state of a processor as a table: a row for each key, read from Spark's state as of its last epoch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from penstock.kernel.expressions import dtype
from penstock.model.cell import loaded
from penstock.model.process import Process
from penstock.model.state import ListOf, MapOf, State
from penstock.model.time import Instant
from penstock.store.checkpoints import Place

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: The column with the timers of a key.
TIMERS = "timers"
_TIMER = pl.Struct({"name": pl.String(), "at": pl.Datetime("us", "UTC"), "clock": pl.String()})
_PHYSICAL = {"timestamp": pl.Int64(), "date": pl.Int32()}


def state_of(spark: SparkSession, checkpoint: Place, process: Process, now: Instant) -> pl.DataFrame:
    """What each key of a processor has: its columns, each state, and its timers. What is gone by now is not there."""
    if not (checkpoint / "commits").exists():
        return table(process, {}, now)
    cells = (
        spark.read.format("statestore")
        .option("path", checkpoint.told)
        .option("stateVarName", "cells")
        .option("flattenCollectionTypes", "true")
        .load()
        .selectExpr("user_map_key.key AS key", "user_map_value.cell AS cell")
    )
    return table(process, dict(cells.toArrow().to_pandas().itertuples(index=False)), now)


def table(process: Process, cells: dict[str, str], now: Instant) -> pl.DataFrame:
    """Cells by key as a table."""
    shape = process.shape
    keys: list[tuple[object, ...]] = []
    found: dict[str, list[Any]] = {name: [] for name in (*shape.states, TIMERS)}
    for key, text in sorted(cells.items()):
        cell, _ = loaded(text, shape.states)
        cell.prune(now)
        if cell.is_empty:
            continue
        keys.append(shape.loaded_key(key))
        for name, state in shape.states.items():
            held = cell.states.get(name)
            found[name].append(None if held is None else _value(state, held))
        timers = sorted(cell.timers.items(), key=lambda timer: (timer[1], str(timer[0])))
        found[TIMERS].append(
            [
                {"name": name if isinstance(name, str) else None, "at": at, "clock": clock}
                for (clock, name), at in timers
            ]
        )
    columns = [
        pl.Series(name, [key[number] for key in keys], dtype=_PHYSICAL.get(kind, dtype(kind))).cast(dtype(kind))
        for number, (name, kind) in enumerate(shape.key)
    ]
    columns += [pl.Series(name, found[name], dtype=_type(state)) for name, state in shape.states.items()]
    columns.append(pl.Series(TIMERS, found[TIMERS], dtype=pl.List(_TIMER)))
    return pl.DataFrame(columns)


def _value(state: State[Any], held: Any) -> Any:
    shown = state.shown(held)
    return [{"key": key, "value": value} for key, value in shown.items()] if isinstance(state, MapOf) else shown


def _type(state: State[Any]) -> pl.DataType:
    if isinstance(state, MapOf):
        return pl.List(pl.Struct({"key": dtype(state.key_kind.name), "value": dtype(state.kind.name)}))
    kind = dtype(state.kind.name)
    return pl.List(kind) if isinstance(state, ListOf) else kind
