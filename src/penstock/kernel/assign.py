"""Windows on columns: the slice of an instant, the windows of a slice, and which of them are closed.

A row is reduced into its slice; slices spread to their windows after the reduction, when there are few of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from penstock.model.time import BEGINNING, Instant
from penstock.model.time import END as FOREVER
from penstock.model.windows import Aligned, Calendar, CountWindow, Cumulating, Fixed, Global, Sliding

DAY = 86_400_000_000


@dataclass(frozen=True)
class Reach:
    """The windows of a slice as numbers: ends from `first` to `last`, one every `step`."""

    first: pl.Expr
    last: pl.Expr
    step: int

    def missed(self, bound: Instant) -> pl.Expr:
        """How many of the slice's windows end at or before a bound."""
        behind = (pl.lit(bound) - self.first) // self.step + 1
        return pl.min_horizontal(pl.max_horizontal(behind, pl.lit(0)), self.windows())

    def windows(self) -> pl.Expr:
        return pl.max_horizontal((self.last - self.first) // self.step + 1, pl.lit(0))


def slice_start(window: Aligned, at: pl.Expr, instants: pl.Series | None = None) -> pl.Expr:
    """The start of the slice that holds an instant. Calendar windows look it up, in `instants`' range."""
    match window:
        case Fixed():
            return _floor(at, window.size, window.offset)
        case Sliding():
            return _floor(at, window.slice, window.offset)
        case Cumulating():
            return _floor(at, window.step, window.offset)
        case Global():
            return pl.lit(BEGINNING, pl.Int64)
        case Calendar():
            assert instants is not None
            starts = pl.Series(calendar_starts(window, instants), dtype=pl.Int64)
            return pl.lit(starts).gather(pl.lit(starts).search_sorted(at, side="right") - 1)
    raise TypeError(f"no kernel for {window!r}")


def calendar_starts(window: Calendar, instants: pl.Series) -> list[Instant]:
    """The starts of all calendar windows that the instants may fall into, by the model's own rule.

    They are found from the distinct days (in UTC) of the instants, so an outlier costs one look-up and not a range.
    """
    starts: set[Instant] = set()
    for day in (instants // DAY).unique().drop_nulls():
        slice_ = window.slice_of(day * DAY)
        while slice_.start < (day + 1) * DAY:
            starts.add(slice_.start)
            slice_ = window.slice_of(slice_.end)
    return sorted(starts)


def reach(window: Aligned, start: pl.Expr, ends: pl.Expr | None = None) -> Reach:
    """The windows of the slice that starts there. `ends`: of calendar windows, whose length varies."""
    match window:
        case Fixed():
            return Reach(start + window.size, start + window.size, 1)
        case Sliding():
            # Windows end at the multiples of `every` (shifted by offset and size) that lie beyond the slice's start.
            first = start + window.every - (start - window.offset - window.size) % window.every
            return Reach(first, _floor(start, window.every, window.offset) + window.size, window.every)
        case Cumulating():
            return Reach(start + window.step, _floor(start, window.size, window.offset) + window.size, window.step)
        case Global():
            return Reach(pl.lit(FOREVER, pl.Int64), pl.lit(FOREVER, pl.Int64), 1)
        case Calendar():
            assert ends is not None
            return Reach(ends, ends, 1)
    raise TypeError(f"no kernel for {window!r}")


def calendar_ends(window: Calendar, starts: pl.Series) -> pl.DataFrame:
    """Each distinct start of a calendar window with its end."""
    distinct = starts.unique().drop_nulls()
    ends = [window.slice_of(start).end for start in distinct]
    return pl.DataFrame({"__start": distinct, "__end": pl.Series(ends, dtype=pl.Int64)})


def spread(window: Aligned, deltas: pl.DataFrame) -> pl.DataFrame:
    """Deltas by slice → deltas by window, with `__start` and `__end`; a slice's delta goes into each of its windows."""
    start = pl.col("__start")
    match window:
        case Fixed():
            return deltas.with_columns((start + window.size).alias("__end"))
        case Global():
            return deltas.with_columns(pl.lit(FOREVER, pl.Int64).alias("__end"))
        case Calendar():
            return deltas.join(calendar_ends(window, deltas["__start"]), on="__start", how="left")
        case Sliding():
            most = -(-window.size // window.every)
            bounds = reach(window, start)
            spread_out = _times(deltas, most).with_columns((bounds.first + pl.col("__i") * window.every).alias("__end"))
            kept = spread_out.filter(pl.col("__end") <= bounds.last)
            return kept.with_columns((pl.col("__end") - window.size).alias("__start")).drop("__i")
        case Cumulating():
            most = window.size // window.step
            bounds = reach(window, start)
            spread_out = _times(deltas, most).with_columns((bounds.first + pl.col("__i") * window.step).alias("__end"))
            kept = spread_out.filter(pl.col("__end") <= bounds.last)
            return kept.with_columns(_floor(start, window.size, window.offset).alias("__start")).drop("__i")
    raise TypeError(f"no kernel for {window!r}")


def spread_count(window: CountWindow, deltas: pl.DataFrame) -> pl.DataFrame:
    """Deltas by slice of a key's sequence → deltas by count window. Windows start at 0 at the earliest."""
    if window.size == window.every:
        return deltas.with_columns((pl.col("__start") + window.size).alias("__end"))
    most = -(-window.size // window.every)
    latest = pl.col("__start") // window.every * window.every
    out = _times(deltas, most).with_columns((latest - pl.col("__i") * window.every).alias("__window"))
    kept = out.filter((pl.col("__window") >= 0) & (pl.col("__window") + window.size > pl.col("__start")))
    return kept.with_columns(
        pl.col("__window").alias("__start"), (pl.col("__window") + window.size).alias("__end")
    ).drop("__i", "__window")


def _floor(at: pl.Expr, step: int, offset: int) -> pl.Expr:
    return at - (at - offset) % step if offset else at - at % step


def _times(frame: pl.DataFrame, count: int) -> pl.DataFrame:
    """Each row `count` times, with `__i` from 0."""
    numbers = pl.Series("__i", np.tile(np.arange(count, dtype=np.int64), frame.height))
    rows = pl.Series(np.repeat(np.arange(frame.height, dtype=np.uint32), count))
    return frame[rows].with_columns(numbers)
