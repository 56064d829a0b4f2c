"""How old the rows of a frame are: the time since they arrived at their source.

>>> rows = pl.DataFrame({ARRIVED: [1_000, 1_000, 1_400, None]})
>>> ages_of(rows, 1_500_000) == Ages.of([500, 500, 100])
True
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, Final

import polars as pl

from penstock.model.time import Instant
from penstock.sources.base import ARRIVED, PATH
from penstock.store.arrivals import Ages, bucket_of

#: Of a larger frame every n-th row is counted, n times: about how many rows that is.
_SAMPLE: Final = 2_048


def ages_of(rows: pl.DataFrame, now: Instant) -> Ages:
    """The ages of the rows whose arrival is known."""
    if ARRIVED in rows.columns:
        return _ages(_counts(rows[ARRIVED]), now)
    if PATH in rows.columns:
        times: Counter[int | None] = Counter()
        for path, count in _counts(rows[PATH]).items():
            times[_modified(path)] += count  # files may have the same time
        return _ages(times, now)
    return Ages()


def _counts(values: pl.Series) -> Counter[Any]:
    """How many rows have which value, by a sample."""
    step = max(1, len(values) // _SAMPLE)
    sample = values.gather_every(step).to_list()
    counts = Counter(sample)
    if step > 1:
        counts = Counter({value: count * step for value, count in counts.items()})
        counts[sample[-1]] -= step * len(sample) - len(values)  # the last one stands for fewer
    return counts


def _ages(counts: dict[int | None, int], now: Instant) -> Ages:
    """The ages of rows: `counts` has how many arrived at each millisecond."""
    ages: dict[int, int] = {}
    for arrived, count in counts.items():
        if arrived is not None:
            bucket = bucket_of(now // 1000 - arrived)
            ages[bucket] = ages.get(bucket, 0) + count
    return Ages(ages)


def arrival_times(rows: pl.DataFrame) -> pl.Series:
    """When each row arrived, in milliseconds: as its source tells, or as its file was written; null if unknown."""
    if ARRIVED in rows.columns:
        return rows[ARRIVED]
    if PATH not in rows.columns:
        return pl.Series(ARRIVED, [None], pl.Int64).new_from_index(0, rows.height)
    times = {path: _modified(path) for path in rows[PATH].unique()}
    return rows[PATH].replace_strict(times, return_dtype=pl.Int64).alias(ARRIVED)


def _modified(path: str | None) -> int | None:
    """When a local file was written; None if it does not exist."""
    try:
        return None if path is None else Path(path.removeprefix("file:")).stat().st_mtime_ns // 1_000_000
    except OSError:
        return None
