"""Admit: a stream's raw rows get their event time; those without a usable one are dead letters.

The same pass observes what the watermark needs: the newest time and mark by partition, and how late events are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from penstock.kernel.elements import compiled, dead_schema
from penstock.kernel.plan import nothing
from penstock.kernel.storable import outside, why_not_storable
from penstock.model.stream import Stream
from penstock.model.time import BEGINNING, Instant, show_duration
from penstock.model.watermarks import BOUNDS, Observation, PartitionTimes, Percentile, Punctuated

_BOUNDS = np.array(BOUNDS, dtype=np.int64)
#: The prefix of columns that are computed for views, which are not part of the stream.
HIDDEN = "__"


@dataclass
class AdmittedRows:
    """A stream's rows with `__at`; the rejected ones by position and reason; and the observed event times."""

    rows: pl.DataFrame
    dead: pl.DataFrame
    observed: Observation


def admit(stream: Stream, frame: pl.DataFrame, now: Instant, newest: Instant = BEGINNING) -> AdmittedRows:
    """Gives rows their event time. `newest` is the newest event time of earlier commits."""
    schema = stream.schema.pick([name for name in stream.schema.names if not name.startswith(HIDDEN)])
    reasons = why_not_storable(schema)
    if stream.event_time is None:
        rows = frame.with_columns(pl.lit(0, pl.Int64).alias("__at"))
        if not reasons:
            return AdmittedRows(rows, nothing(dead_schema()), Observation())
        rows, dead = _parted(rows.with_columns(pl.coalesce(reasons).alias("__reason")))
        return AdmittedRows(rows, dead, Observation())
    time = compiled(stream.event_time, stream.schema)
    errors = [time.error]
    columns = [time.value.to_physical().alias("__at")]
    if isinstance(stream.watermark, Punctuated):
        mark = compiled(stream.watermark.mark, stream.schema)
        errors.append(mark.error)
        columns.append(mark.value.to_physical().alias("__mark"))
    at = pl.col("__at")
    reasons += [error for error in errors if error is not None]
    reasons += [pl.when(at.is_null()).then(pl.lit("the event time is null")), outside(at)]
    if stream.max_ahead is not None:
        ahead = f"the event time is more than {show_duration(stream.max_ahead)} ahead"
        reasons.append(pl.when(at > now + stream.max_ahead).then(pl.lit(ahead)))
    rows, dead = _parted(frame.with_columns(columns).with_columns(pl.coalesce(reasons).alias("__reason")))
    observed = _observe(stream, rows, newest)
    return AdmittedRows(rows.drop("__mark", strict=False), dead, observed)


def _parted(rows: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The rows without a reason, and the places of the others."""
    dead = rows.filter(pl.col("__reason").is_not_null()).select(list(dead_schema()))
    return (rows.filter(pl.col("__reason").is_null()) if dead.height else rows).drop("__reason"), dead


def _observe(stream: Stream, rows: pl.DataFrame, newest: Instant) -> Observation:
    if stream.watermark is None or not rows.height:
        return Observation()
    marked = "__mark" in rows.columns
    newest_by_partition = rows.group_by("__partition").agg(
        pl.col("__at").max(), (pl.col("__mark").max() if marked else pl.lit(None, pl.Int64)).alias("__newest_mark")
    )
    partitions = {p: PartitionTimes(at, mark) for p, at, mark in newest_by_partition.iter_rows()}
    if not isinstance(stream.watermark, Percentile):
        return Observation(partitions)
    lateness = np.maximum(newest - rows["__at"].to_numpy(), 0)
    buckets = np.minimum(np.searchsorted(_BOUNDS, lateness, side="left"), len(_BOUNDS) - 1)
    numbers, counts = np.unique(buckets, return_counts=True)
    return Observation(partitions, dict(zip(numbers.tolist(), counts.tolist(), strict=True)))
