"""How old the rows of a frame are: the time since they arrived at their source.

>>> rows = pl.DataFrame({ARRIVED: [1_000, 1_000, 1_400, None]})
>>> ages_of(rows, 1_500_000) == Ages.of([500, 500, 100])
True
"""

from __future__ import annotations

from pathlib import Path

import polars as pl

from penstock.model.time import Instant
from penstock.sources.base import ARRIVED, PATH
from penstock.store.arrivals import STEPS, Ages


def ages_of(rows: pl.DataFrame, now: Instant) -> Ages:
    """The ages of the rows whose arrival is known."""
    if ARRIVED not in rows.columns and PATH not in rows.columns:
        return Ages()
    # Neighbours mostly arrived together: a run of them is counted at once.
    runs = arrival_times(rows).rle().struct.unnest().drop_nulls()
    age = pl.max_horizontal(now // 1000 - pl.col("value"), 0)
    bucket = ((age + 1).log(2) * STEPS).floor().cast(pl.Int32).alias("bucket")
    counts = runs.group_by(bucket).agg(pl.col("len").sum())
    return Ages({int(number): int(count) for number, count in counts.iter_rows()})


def arrival_times(rows: pl.DataFrame) -> pl.Series:
    """When each row arrived, in milliseconds: as its source tells, or as its file was written; null if unknown."""
    if ARRIVED in rows.columns:
        return rows[ARRIVED]
    if PATH not in rows.columns:
        return pl.Series(ARRIVED, [None], pl.Int64).new_from_index(0, rows.height)
    times = {path: _modified(path) for path in rows[PATH].rle().struct.field("value").unique()}
    if len(times) == 1:
        (only,) = times.values()
        return pl.Series(ARRIVED, [only], pl.Int64).new_from_index(0, rows.height)
    return rows[PATH].replace_strict(times, return_dtype=pl.Int64).alias(ARRIVED)


def _modified(path: str | None) -> int | None:
    """When a local file was written; None if it is gone."""
    try:
        return None if path is None else Path(path.removeprefix("file:")).stat().st_mtime_ns // 1_000_000
    except OSError:
        return None
