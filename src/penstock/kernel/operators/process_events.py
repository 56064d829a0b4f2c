"""Events on columns as user code has them: rows of Python values, grouped by key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import repeat
from typing import Any, Final

import numpy as np
import polars as pl

from penstock.kernel.operators.base import SIGN, column_name
from penstock.kernel.plan import POSITION
from penstock.model.kinds import kind_of
from penstock.model.processing import Shape
from penstock.model.time import Instant

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class KeyedEvents:
    """Events, those of one key next to each other and in the order of their positions; `counts` are by key.

    `rows` are the frame that they came in, in the same order; `keys` has a row for each key.
    """

    rows: pl.DataFrame
    keys: pl.DataFrame
    counts: list[int]
    events: Sequence[Any]
    times: Sequence[datetime | None]
    ats: Sequence[Instant] | None  # None: events have no time


def keyed_events(rows: pl.DataFrame, keys: Sequence[str], shape: Shape, timed: bool) -> KeyedEvents:
    """Events of a commit by key."""
    rows = in_order(rows)
    groups = rows.select(keys).with_row_index("__row").group_by(keys).agg("__row")
    counts = groups["__row"].list.len().to_list()
    rows = rows[groups["__row"].explode()] if groups.height else rows
    ats: Sequence[Instant] | None = rows["__at"].to_list() if timed else None
    times: Sequence[datetime | None] = datetimes(rows["__at"]) if timed else [None] * rows.height
    columns = []
    for name, kind in shape.event:
        series = rows[column_name(name)]
        if timed and kind == "timestamp" and _same(series, rows["__at"]):
            columns.append(times)
        else:
            columns.append(shown_values(series, kind))
    return KeyedEvents(rows, groups.select(keys), counts, _events(columns, rows, shape), times, ats)


def in_order(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows in the order of their positions."""
    constant = all(rows[name].min() == rows[name].max() for name in POSITION[:-1])
    if constant and rows[POSITION[-1]].is_sorted():
        return rows
    return rows.sort(*POSITION, maintain_order=True)


def _events(columns: list[Sequence[Any]], rows: pl.DataFrame, shape: Shape) -> list[Any]:
    tuples = zip(*columns, strict=True) if columns else repeat((), rows.height)
    sign = rows[SIGN]
    if rows.height == 0 or sign.min() == 1:
        return list(map(tuple.__new__, repeat(shape.make_event), tuples))
    types = [shape.make_event if one > 0 else shape.make_retraction for one in sign.to_list()]
    return list(map(tuple.__new__, types, tuples))


def _same(series: pl.Series, at: pl.Series) -> bool:
    physical = series.to_physical()
    return physical.null_count() == 0 and bool((physical == at).all())


def shown_values(series: pl.Series, kind: str) -> Sequence[Any]:
    """The values of a column as user code has them."""
    if kind == "timestamp":
        return datetimes(series.to_physical())
    if not kind.startswith("array<") or "timestamp" not in kind:
        return series.to_list()
    give = kind_of(kind).given
    return [give(value) for value in series.to_physical().to_list()]


def datetimes(micros: pl.Series) -> list[Any]:
    """Instants as datetimes in UTC; null stays null."""
    if micros.null_count():
        known = iter(datetimes(micros.drop_nulls()))
        return [None if missing else next(known) for missing in micros.is_null().to_list()]
    if micros.len() == 0:
        return []
    passed = micros.to_numpy().astype("timedelta64[us]").astype(object)
    return (passed + np.array(_EPOCH, dtype=object)).tolist()  # type: ignore[no-any-return]
