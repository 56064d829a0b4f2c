"""Which windows a batch run must compute again: those that events after the last one fall into.

It goes by time: spans of slices that new events touched, and around them the events that their windows are made of. A
view whose windows are not slices of time, or whose rows get another time on the way, is computed whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

import polars as pl

from penstock.history.events.columns import COMMIT
from penstock.history.events.event_history import EventHistory, HistoryPast
from penstock.history.events.past import Past
from penstock.history.events.read import as_frame, read_file
from penstock.model.stream import Transform, WithTime, branches
from penstock.model.table import TableJoin, sides
from penstock.model.time import Instant
from penstock.model.view import View
from penstock.model.windows import Cumulating, Fixed, Sliding

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Span: TypeAlias = tuple[Instant, Instant]
#: How many rows are looked at here, more of them in Spark.
_FEW: Final = 5_000_000
#: The most spans that are read apart; where there are more, the smallest gaps are read too.
MOST: Final = 8


def is_incremental(view: View) -> bool:
    """Whether only touched windows need be computed again."""
    moved = (WithTime, Transform, TableJoin)
    steps = (step for branch in branches(view.input) for step in branch.steps)
    fixed = isinstance(view.windows, (Fixed, Sliding, Cumulating))
    return fixed and not any(isinstance(step, moved) or sides(step) for step in steps)


def touched(spark: SparkSession, view: View, history: EventHistory, after: int, through: int) -> tuple[Span, ...]:
    """The spans of time that rows of the commits above `after` up to `through` fall into."""
    step, offset = _step(view)
    slices: set[int] = set()
    for source in view.input.sources:
        past = history.past(source, through, after)
        few = past.place.is_local and not past.tombstones and sum(file.rows for file in past.files) <= _FEW
        slices |= _here(past, step, offset) if few else _in_spark(spark, past, step, offset)
    spans = [(n * step + offset, (n + 1) * step + offset) for n in sorted(slices)]
    return tuple(merged(spans, MOST))


def _here(past: HistoryPast, step: int, offset: int) -> set[int]:
    """The slices that rows fall into, by number; of few rows without a job of Spark's."""
    slices: set[int] = set()
    for file in past.files:
        rows = as_frame(read_file(past.place, file, [COMMIT, "__at"]))
        own_rows = rows.filter(pl.col(COMMIT).is_between(past.after, past.through, closed="right"))
        slices.update(own_rows.select((pl.col("__at") - offset) // step).to_series().unique())
    return slices


def _in_spark(spark: SparkSession, past: HistoryPast, step: int, offset: int) -> set[int]:
    from pyspark.sql import functions as f

    at = f.col("__at") - f.lit(offset)
    slices = past.frame(spark, []).select((at - f.pmod(at, f.lit(step))).alias("start")).distinct()
    return {row.start // step for row in slices.collect()}


def around(view: View, spans: Iterable[Span]) -> list[Span]:
    """The times of all events that windows which meet the spans are made of."""
    size = _size(view)
    return merged([(start - size, end + size) for start, end in spans], MOST)


def pasts(view: View, history: EventHistory, spans: Sequence[Span], through: int) -> Mapping[str, list[Past]]:
    """The rows with these times, by stream."""
    return {
        source.name: [history.past(source, through, start=start, end=end) for start, end in around(view, spans)]
        for source in view.input.sources
    }


def merged(spans: Sequence[Span], most: int) -> list[Span]:
    """Spans that touch become one; and further ones, the nearest first, until there are few.

    >>> merged([(0, 2), (2, 3), (5, 6), (20, 21)], 2)
    [(0, 6), (20, 21)]
    """
    close_spans: list[Span] = []
    for start, end in sorted(spans):
        if close_spans and start <= close_spans[-1][1]:
            close_spans[-1] = (close_spans[-1][0], max(close_spans[-1][1], end))
        else:
            close_spans.append((start, end))
    gaps = sorted(close_spans[i + 1][0] - close_spans[i][1] for i in range(len(close_spans) - 1))
    if len(close_spans) <= most:
        return close_spans
    bound = gaps[len(close_spans) - most - 1]
    joined = [close_spans[0]]
    for start, end in close_spans[1:]:
        if start - joined[-1][1] <= bound:
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((start, end))
    return joined


def _step(view: View) -> tuple[int, int]:
    match view.windows:
        case Fixed(size=size, offset=offset):
            return size, offset
        case Sliding() as window:
            return window.slice, window.offset
        case Cumulating(step=step, offset=offset):
            return step, offset
    raise TypeError(f"not slices of time: {view.windows!r}")


def _size(view: View) -> int:
    assert isinstance(view.windows, (Fixed, Sliding, Cumulating))
    return view.windows.size
