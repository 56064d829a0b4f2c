"""Views that differ only in the length of their fixed windows are rolled up from a shared base in one pass.

A thousand such views would be a thousand small queries. Here each row of the base is repeated for each view, with the
view's number, so that one query groups them all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import polars as pl

from penstock.kernel.aggregates.base import combine_places
from penstock.kernel.plan import START, Plan, settle
from penstock.model.time import Instant
from penstock.model.windows import Fixed

#: With fewer views a query for each is as fast.
FEW: Final = 8
#: About how many rows are in memory at a time.
LARGEST: Final = 1_000_000
_VIEW, _SIZE, _OFFSET, _BOUND = "__view", "__size", "__offset_of", "__closed"
_NEVER: Final = -(1 << 62)


def roll_up(
    rows: pl.DataFrame, plans: Sequence[Plan], bounds: Sequence[Instant | None], largest: int = LARGEST
) -> Iterator[pl.DataFrame]:
    """The deltas of each view, in order.

    `rows` are those of the base for the first view: one for each of its keys and slices of time, with its partials and
    the start of the slice, `__t`. Windows that end at a view's bound or before are closed.
    """
    at_once = max(1, largest // max(1, rows.height))
    for begin in range(0, len(plans), at_once):
        chunk = slice(begin, begin + at_once)
        yield from _together(rows, plans[0], plans[chunk], bounds[chunk])


def _together(
    rows: pl.DataFrame, first: Plan, plans: Sequence[Plan], bounds: Sequence[Instant | None]
) -> Iterator[pl.DataFrame]:
    windows = [plan.view.windows for plan in plans]
    views = pl.DataFrame(
        [
            (number, window.size, window.offset, _NEVER if bound is None else bound)
            for number, (window, bound) in enumerate(zip(windows, bounds, strict=True))
            if isinstance(window, Fixed)
        ],
        {_VIEW: pl.Int32, _SIZE: pl.Int64, _OFFSET: pl.Int64, _BOUND: pl.Int64},
        orient="row",
    )
    at = pl.col("__t")
    numbered = rows.lazy().join(views.lazy(), how="cross")
    started = numbered.with_columns((at - (at - pl.col(_OFFSET)) % pl.col(_SIZE)).alias(START))
    open_rows = started.filter(pl.col(START) + pl.col(_SIZE) > pl.col(_BOUND))
    parts = [expression for part in first.aggregates for expression in part.columns.combine()]
    open_rows = open_rows.with_columns(combine_places(first.columns))
    grouped = open_rows.group_by([_VIEW, *first.keys, START]).agg(pl.col("__n").sum(), *parts)
    deltas = settle(grouped.collect(), first.columns).select(_VIEW, *first.delta_schema)
    own = deltas.partition_by(_VIEW, as_dict=True, include_key=False)
    for number, plan in enumerate(plans):
        frame = own.get((number,))
        frame = deltas.drop(_VIEW).clear() if frame is None else frame
        frame.columns = list(plan.delta_schema)
        yield frame
