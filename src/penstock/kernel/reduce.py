"""Reduce: events → deltas, one row of partial aggregates for each key and slice (or session) that a batch saw.

Runs wherever the events are; knows the watermark in force when the epoch began, and tells late rows apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import polars as pl

from penstock.errors import RowError
from penstock.kernel.aggregates import Columns
from penstock.kernel.aggregates.base import combine_places
from penstock.kernel.aggregates.order import all_places
from penstock.kernel.assign import Reach, calendar_ends, reach, slice_start
from penstock.kernel.elements import Elements, MadeBefore, dead_schema, elements
from penstock.kernel.group import group
from penstock.kernel.plan import END, ORDINAL, POSITION, START, Input, Plan, nothing, settle
from penstock.model.row_steps import Filter
from penstock.model.stream import Where, WithTime
from penstock.model.time import BEGINNING, Instant
from penstock.model.windows import (
    Aligned,
    Assigned,
    Calendar,
    CountBased,
    CustomMerging,
    Global,
    Interval,
    Session,
)
from penstock.model.windows.calendar import EARLIEST, LATEST, OUTSIDE


@dataclass(frozen=True)
class Size:
    """What is known of a batch before it is grouped: its rows, and whether no sum of its values can overflow."""

    rows: int
    small: bool


#: The types of what elements are grouped by, besides their keys.
_BOUNDS: dict[str, pl.DataType] = {
    START: pl.Int64(),
    END: pl.Int64(),
    "__session": pl.UInt32(),
    "__element": pl.UInt32(),
    "__source": pl.Int32(),
    "__partition": pl.Int32(),
    "__offset": pl.Int64(),
    ORDINAL: pl.Int64(),
}


def late_schema() -> dict[str, pl.DataType]:
    position = {"__source": pl.Int32(), "__partition": pl.Int32(), "__offset": pl.Int64()}
    return {**position, "__missed": pl.Int64(), "__windows": pl.Int64()}


@dataclass
class Reduced:
    """What a batch leaves: deltas, and the positions of rows that were late or on which an expression failed."""

    deltas: pl.DataFrame
    late: pl.DataFrame = field(default_factory=lambda: nothing(late_schema()))
    dead: pl.DataFrame = field(default_factory=lambda: nothing(dead_schema()))


def reduce(
    plan: Plan, source: str, frame: pl.DataFrame, watermark: Instant, before: MadeBefore | None = None
) -> Reduced:
    """The deltas of one batch of a stream's admitted events (its columns, `__at`, and the position).

    `before` is what users' functions have made of the same batch for others.
    """
    ways = [branch for branch in plan.branches if branch.source.name == source]
    plain = all(isinstance(step, Where | WithTime | Filter) for branch in ways for step in branch.steps)
    size = Size(frame.height, plain and is_small(plan.columns, frame))
    parts = [_reduce_branch(plan, elements(plan, branch, frame, before), watermark, size) for branch in ways]
    if len(parts) == 1:
        return parts[0]
    return Reduced(
        combine(plan, [part.deltas for part in parts]),
        pl.concat([part.late for part in parts]),
        pl.concat([part.dead for part in parts]),
    )


def combine(plan: Plan, deltas: list[pl.DataFrame]) -> pl.DataFrame:
    """The deltas of several batches as one. What the merge needs one by one stays apart."""
    frame = pl.concat(deltas) if len(deltas) > 1 else deltas[0]
    if len(deltas) == 1 or plan.merging or plan.by_row:
        return frame
    if plan.forgets:
        grouped = pl.col("__offset").is_null()
        rest = combine_by(plan, frame.filter(grouped), [*plan.keys, START, *plan.position])
        return pl.concat([rest.select(*plan.delta_schema), frame.filter(~grouped)])
    window = [START, END] if END in plan.delta_schema else [START]
    return combine_by(plan, frame, [*plan.keys, *window]).select(*plan.delta_schema)


def combine_by(plan: Plan, frame: pl.DataFrame, by: list[str]) -> pl.DataFrame:
    """Partials that belong together become one."""
    sums = [pl.col("__n").sum(), *([pl.col("__rows").sum()] if plan.view.signed else [])]
    sums += [pl.col("__touched").max()] if plan.forgets else []
    parts = [expression for part in plan.aggregates for expression in part.columns.combine()]
    frame = frame.with_columns(combine_places(plan.columns))
    return settle(frame.group_by(by).agg(*sums, *parts), plan.columns)


def closing_bound(plan: Plan, watermark: Instant) -> Instant | None:
    """Windows that end at or before this are closed; None where none can be."""
    if watermark == BEGINNING or not plan.view.windows.ends_in_event_time:
        return None
    return max(watermark - plan.view.lateness, plan.closed)


def _reduce_branch(plan: Plan, taken: Elements, watermark: Instant, size: Size) -> Reduced:
    kind = plan.view.windows
    if isinstance(kind, Aligned):
        reduced = _aligned(plan, kind, taken.good, watermark, size)
    elif isinstance(kind, Session):
        reduced = _sessions(plan, kind, taken.good, watermark, size)
    elif isinstance(kind, Assigned):
        reduced = _assigned(plan, kind, taken.good, watermark, size)
    elif isinstance(kind, CustomMerging):
        reduced = _opened(plan, kind, taken.good, size)
    else:
        assert isinstance(kind, CountBased)
        reduced = _by_row(plan, taken.good.with_columns(pl.lit(0, pl.Int64).alias(START)), size)
    if taken.dead.height:
        reduced.dead = pl.concat([taken.dead, reduced.dead])
    return reduced


def _aligned(plan: Plan, kind: Aligned, rows: pl.LazyFrame, watermark: Instant, size: Size) -> Reduced:
    if isinstance(kind, Global):
        return _all_time(plan, rows, watermark, size)
    ends, dead = None, nothing(dead_schema())
    if isinstance(kind, Calendar):
        collected = rows.collect()
        inside = pl.col("__at").is_between(EARLIEST, LATEST, closed="left")
        outside = collected.filter(~inside)
        if outside.height:
            dead = outside.with_columns(pl.lit(OUTSIDE).alias("__reason")).select(list(dead_schema()))
            collected = collected.filter(inside)
        rows = collected.lazy()
        starts = collected.select(slice_start(kind, pl.col("__at"), collected["__at"]).alias(START)).to_series()
        rows = rows.with_columns(starts)
        rows = rows.join(calendar_ends(kind, starts).lazy(), on=START, how="left")
        ends = pl.col(END)
    else:
        rows = rows.with_columns(slice_start(kind, pl.col("__at")).alias(START))
    bound = closing_bound(plan, watermark)
    late = nothing(late_schema())
    if bound is not None:
        oldest = rows.select(pl.col("__at").min()).collect().item()
        if oldest is not None and oldest < bound:  # a window ends after each of its instants
            spans = reach(kind, pl.col(START), ends)
            late = _late(spans, rows, bound)
            rows = rows.filter(spans.last > bound)
    return Reduced(_deltas(plan, rows, [*plan.keys, START], size), late, dead)


def _all_time(plan: Plan, rows: pl.LazyFrame, watermark: Instant, size: Size) -> Reduced:
    """One delta for each key.

    Where all elements of a key are older than the retention, only the merge knows whether the key is there: they go to
    it one by one.
    """
    bound = plan.view.forgotten_before(watermark)
    if bound is None:
        return Reduced(_deltas(plan, rows, plan.keys, size))
    old = (pl.col("__at").max().over(plan.keys) < bound).alias("__old")
    elements = rows.collect()
    if not (elements["__at"] < bound).any():
        return Reduced(_deltas(plan, elements.lazy(), plan.keys, size))
    elements = elements.with_columns(old)
    alone = elements.filter("__old").lazy().with_columns(pl.lit(BEGINNING, pl.Int64).alias(START))
    fresh = _deltas(plan, elements.filter(~pl.col("__old")).lazy(), plan.keys, size)
    return Reduced(pl.concat([fresh, _by_row(plan, alone, size).deltas]))


def late_rows(plan: Plan, source: str, frame: pl.DataFrame, watermark: Instant) -> pl.DataFrame:
    """The positions of the rows that are late for some of their windows; of windows that are slices of time."""
    bound = closing_bound(plan, watermark)
    kind = plan.view.windows
    assert isinstance(kind, Aligned)
    frames = [nothing(late_schema())]
    if bound is not None:
        for branch in plan.branches:
            if branch.source.name == source:
                rows = elements(plan, branch, frame).good
                rows = rows.with_columns(slice_start(kind, pl.col("__at")).alias(START))
                frames.append(_late(reach(kind, pl.col(START)), rows, bound))
    return pl.concat(frames)


def _late(spans: Reach, rows: pl.LazyFrame, bound: Instant) -> pl.DataFrame:
    counted = rows.with_columns(spans.missed(bound).alias("__missed"), spans.windows().alias("__windows"))
    return counted.filter(pl.col("__missed") > 0).select(list(late_schema())).collect()


def _sessions(plan: Plan, kind: Session, rows: pl.LazyFrame, watermark: Instant, size: Size) -> Reduced:
    """Elements of a key that lie within the gap of each other become one little session.

    One that is closed by itself may still belong to a session that is not: its elements go to the merge one by one.
    """
    at = pl.col("__at")
    rows = rows.sort([*plan.keys, "__at"])
    new = at > at.shift(1) + kind.gap
    for name in plan.keys:
        new = new | pl.col(name).ne_missing(pl.col(name).shift(1))
    rows = rows.with_columns(new.fill_null(True).cum_sum().alias("__session"))
    bound = closing_bound(plan, watermark)
    if bound is None:
        return Reduced(_sessions_of(plan, kind, rows, size))
    end = at.max().over("__session") + kind.gap
    marked = rows.with_columns((end <= bound).alias("__suspect")).collect()
    fine = _sessions_of(plan, kind, marked.filter(~pl.col("__suspect")).lazy(), size)
    alone = marked.filter(pl.col("__suspect")).lazy().with_columns(at.alias(START), (at + kind.gap).alias(END))
    return Reduced(pl.concat([fine, _by_row(plan, alone, size).deltas]))


def _sessions_of(plan: Plan, kind: Session, rows: pl.LazyFrame, size: Size) -> pl.DataFrame:
    at = pl.col("__at")
    bounds = {START: at.min(), END: at.max() + kind.gap}
    return _deltas(plan, rows, [*plan.keys, "__session"], size, bounds)


def _assigned(plan: Plan, kind: Assigned, rows: pl.LazyFrame, watermark: Instant, size: Size) -> Reduced:
    def assign(at: int, values: tuple[object, ...]) -> list[Interval]:
        return list(kind.assign(at, values))

    placed, dead = _call(plan, rows.collect().with_row_index("__element"), assign)
    bound = closing_bound(plan, watermark)
    late = nothing(late_schema())
    if bound is not None:
        closed = placed.filter(pl.col(END) <= bound)
        if closed.height:
            total = placed.group_by("__element").agg(pl.len().cast(pl.Int64).alias("__windows"))
            missed = closed.group_by("__element", *POSITION).agg(pl.len().cast(pl.Int64).alias("__missed"))
            late = missed.join(total, on="__element").select(list(late_schema()))
            placed = placed.filter(pl.col(END) > bound)
    return Reduced(_deltas(plan, placed.lazy(), [*plan.keys, START, END], size), late, dead)


def _opened(plan: Plan, kind: CustomMerging, rows: pl.LazyFrame, size: Size) -> Reduced:
    def assign(at: int, values: tuple[object, ...]) -> list[Interval]:
        return [kind.open(at, values)]

    placed, dead = _call(plan, rows.collect().with_row_index("__element"), assign)
    reduced = _by_row(plan, placed.drop("__element").lazy(), size)
    reduced.dead = dead
    return reduced


def _call(plan: Plan, rows: pl.DataFrame, assign: object) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Rows with the windows that a user's function gives them, called once for each distinct input."""
    inputs = ["__at", *(plan.inputs[text] for text in plan.view.windows.inputs)]
    distinct = rows.select(pl.col(inputs).to_physical()).unique().with_row_index("__call")
    windows: list[tuple[int, int, int]] = []
    failed: dict[int, str] = {}
    for number, at, *values in distinct.select("__call", *inputs).iter_rows():
        try:
            windows += [(number, w.start, w.end) for w in assign(at, tuple(values))]  # type: ignore[operator]
        except RowError as error:
            failed[number] = error.message
    called = rows.with_columns(pl.col(inputs).to_physical().name.prefix("in:")).join(
        distinct.select("__call", pl.col(inputs).name.prefix("in:")),
        on=[f"in:{name}" for name in inputs],
        how="left",
        nulls_equal=True,
    )
    called = called.drop([f"in:{name}" for name in inputs])
    reasons = pl.DataFrame(
        {"__call": list(failed), "__reason": list(failed.values())},
        schema={"__call": distinct["__call"].dtype, "__reason": pl.String},
    )
    dead = called.join(reasons, on="__call").select(list(dead_schema()))
    assigned = pl.DataFrame(
        windows, schema={"__call": distinct["__call"].dtype, START: pl.Int64, END: pl.Int64}, orient="row"
    )
    return called.join(assigned, on="__call").drop("__call"), dead


def _by_row(plan: Plan, rows: pl.LazyFrame, size: Size) -> Reduced:
    """Each element as a delta of its own, with its position."""
    bounds = [START, END] if plan.merging else [START]
    numbered = rows.with_row_index("__element")
    return Reduced(_deltas(plan, numbered, ["__element", *plan.keys, *bounds, *plan.position], replace(size, rows=0)))


def _deltas(
    plan: Plan, rows: pl.LazyFrame, by: list[str], size: Size, more: Mapping[str, pl.Expr] | None = None
) -> pl.DataFrame:
    """Rows by group as deltas. `more` gives other columns of a group; what a delta lacks is null."""
    sums = [pl.len().cast(pl.Int64).alias("__n")]
    if plan.view.signed:
        sums.append(pl.col("__sign").cast(pl.Int64).sum().alias("__rows"))
    if plan.forgets:
        sums.append(pl.col("__at").max().alias("__touched"))
    others = more or {}
    sums += [expression.alias(name) for name, expression in others.items()]
    parts = [*sums, *partials(plan.aggregates, size.small)]
    rows = rows.with_columns(reduce_places(plan.aggregates))
    if by:
        grouped = group(rows, by, plan.key_types | _BOUNDS, parts, size.rows)
    else:  # a column, not a literal: of no rows there is no group
        grouped = rows.with_columns(pl.lit(0).alias("__all")).group_by("__all").agg(parts)
    known = {*by, *others, "__n", "__rows", "__touched", *plan.fields}
    missing = {START: pl.lit(BEGINNING, pl.Int64)}
    columns = [
        pl.col(name) if name in known else missing.get(name, pl.lit(None, kind)).alias(name)
        for name, kind in plan.delta_schema.items()
    ]
    if any(part.needs_settle for part in plan.columns):
        return settle(grouped.collect(), plan.columns).select(columns)
    return grouped.select(columns).collect()


def partials(inputs: Sequence[Input], small: bool) -> list[pl.Expr]:
    """The partials of rows, by the cheapest way that is exact: small numbers need no care for overflow."""
    return [
        expression
        for part in inputs
        for expression in (part.columns.reduce_small if small else part.columns.reduce)(part.inputs, part.where)
    ]


def reduce_places(inputs: Sequence[Input]) -> list[pl.Expr]:
    """What a frame of rows needs besides them, before `partials`."""
    return all_places(order for part in inputs for order in part.columns.reduce_orders(part.inputs, part.where))


def is_small(columns: Iterable[Columns], frame: pl.DataFrame) -> bool:
    """Whether no Int64 sum of the batch's values can overflow. Known without work where inputs are plain columns."""
    most = 0
    for part in columns:
        if part.bounded:
            (text,) = part.aggregate.inputs
            if text not in frame.columns:
                return False
            extremes = frame[text].min(), frame[text].max()
            most = max([most, *(abs(value) for value in extremes if isinstance(value, int))])
    return bool(most * frame.height < 1 << 62)
