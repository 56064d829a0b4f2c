"""Merge: state ⊕ delta → state'. Deltas find their windows, windows that belong together become one, partials combine.

The caller brings just the stored rows that the deltas touch (`touched`), wherever they are kept.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from penstock.kernel.aggregates.base import combine_places
from penstock.kernel.assign import spread, spread_count
from penstock.kernel.plan import END, OWNER_END, OWNER_START, START, Plan, nothing, settle, shown
from penstock.kernel.reduce import closing_bound, combine_by, late_schema
from penstock.kernel.triggers import Moment, apply
from penstock.model.time import BEGINNING, Instant
from penstock.model.time import END as FOREVER
from penstock.model.windows import Aligned, CountBased, CountWindow, Interval, Session, span

WHOLE_START, WHOLE_END = "__whole_start", "__whole_end"


@dataclass
class Merged:
    """The windows that a commit touched, with their new state and `__n`, the elements that came."""

    rows: pl.DataFrame
    ghosts: pl.DataFrame
    late: pl.DataFrame


def number(plan: Plan, deltas: pl.DataFrame, seen: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Count windows: each element's number in its key's sequence, as `__start`; and how many each key has now.

    `seen` has the keys and `__seen`, the elements of each key before this commit.
    """
    kind = plan.view.windows
    assert isinstance(kind, CountWindow)
    if not deltas.height:
        return deltas, seen
    ordered = deltas.sort(plan.position)
    if plan.keys:
        comparable = _comparable(plan)
        names = [column.meta.output_name() for column in comparable]
        known = seen.select(*comparable, "__seen")
        ordered = ordered.with_columns(comparable)
        ordered = ordered.join(known, on=names, how="left", nulls_equal=True, maintain_order="left").drop(names)
        place = pl.int_range(pl.len(), dtype=pl.Int64).over(plan.keys)
    else:
        before = seen["__seen"].item() if seen.height else 0
        ordered = ordered.with_columns(pl.lit(before, pl.Int64).alias("__seen"))
        place = pl.int_range(pl.len(), dtype=pl.Int64)
    sequence = pl.col("__seen").fill_null(0) + place
    numbered = ordered.with_columns(sequence.alias(START), sequence.alias("__number"))
    by: list[str | pl.Expr] = [*plan.keys] or [pl.lit(0).alias("__all")]  # there are rows, so there is a group
    counts = numbered.group_by(by).agg((pl.col("__number").max() + 1).alias("__seen")).select(*plan.keys, "__seen")
    sliced = numbered.with_columns(pl.col(START) - pl.col(START) % kind.slice)
    return sliced.select(*plan.delta_schema), counts


def _comparable(plan: Plan) -> list[pl.Expr]:
    """The keys as columns that can be joined: in a left join NaN is not equal to NaN."""
    columns = []
    for name, kind in plan.key_types.items():
        value = pl.col(name).fill_nan(None) if kind.is_float() else pl.col(name)
        columns.append(value.alias(f"__key:{name}"))
        columns += [pl.col(name).is_nan().alias(f"__nan:{name}")] if kind.is_float() else []
    return columns


def widen(plan: Plan, deltas: pl.DataFrame, before: Instant) -> pl.DataFrame:
    """Deltas by slice → deltas by window, without the windows that were closed before the commit."""
    kind = plan.view.windows
    if isinstance(kind, CountWindow):
        return combine_by(plan, spread_count(kind, deltas), [*plan.keys, START, END])
    if not isinstance(kind, Aligned):
        return deltas
    wide = spread(kind, deltas)
    bound = closing_bound(plan, before)
    if bound is not None:
        wide = wide.filter(pl.col(END) > bound)
    if wide.height == deltas.height:
        return wide
    return combine_by(plan, wide, [*plan.keys, START, END])


def merge(
    plan: Plan, deltas: pl.DataFrame, touched: pl.DataFrame, ghosts: pl.DataFrame, before: Instant, now: Instant
) -> Merged:
    """The touched windows with the deltas in them. Where windows merge, `touched` and `ghosts` hold all of a key."""
    late = nothing(late_schema())
    if plan.merging:
        deltas, touched, ghosts, late = _absorb(plan, deltas, touched, ghosts, before)
    elif plan.forgets:
        deltas, touched, late = _without_forgotten(plan, deltas, touched, before)
    rows = _stack(plan, deltas, touched).with_columns(combine_places([*plan.columns, *plan.pending]))
    rows = rows.group_by([*plan.keys, START, END]).agg(_combining(plan))
    unsettled = [part for part in (*plan.columns, *plan.pending) if part.needs_settle]
    if unsettled:
        rows = settle(rows.collect(), unsettled).lazy()
    return Merged(_started(plan, rows, before, now).collect(), ghosts, late)


def _stack(plan: Plan, deltas: pl.DataFrame, touched: pl.DataFrame) -> pl.LazyFrame:
    """Stored rows and deltas under each other; a delta has no firing state yet."""
    fresh = [pl.col("__n").alias("__new"), pl.lit(False).alias("__stored")]
    if isinstance(plan.view.windows, CountBased):
        fresh.append(pl.col("__n").alias("__elements"))
    for part, waiting in zip(plan.aggregates, plan.pending, strict=False):
        fresh += [pl.col(name).alias(other) for name, other in zip(part.columns.fields, waiting.fields, strict=True)]
    known = {*deltas.columns, *(column.meta.output_name() for column in fresh)}
    fresh += [pl.lit(None, kind).alias(name) for name, kind in plan.state_schema.items() if name not in known]
    columns = [*plan.state_schema, "__n", "__stored"]
    new = deltas.lazy().with_columns(fresh).select(columns)
    old = touched.lazy().with_columns(pl.lit(0, pl.Int64).alias("__n"), pl.lit(True).alias("__stored"))
    return pl.concat([old.select(columns), new])


def _combining(plan: Plan) -> list[pl.Expr]:
    """How value state and firing state of rows that become one window combine. Fresh rows have null firing state."""
    summed = ["__n", "__new", *(name for name in ("__elements", "__rows") if name in plan.value_schema)]
    parts = [expression for part in plan.aggregates for expression in part.columns.combine()]
    parts += [expression for part in plan.pending for expression in part.combine()]
    firing = [
        pl.col("__index").max(),
        pl.col("__finished").all(),
        pl.col("__wake").any(),
        pl.col("__stored").any(),
        *(column.merge(pl.col(name)).alias(name) for name, column in plan.trigger.columns.items()),
    ]
    if plan.forgets:
        parts.append(pl.col("__touched").max())
    if plan.retracting:
        firing.append(pl.col("__shown").max())
        firing += [pl.col(shown(name)).drop_nulls().first() for name in plan.values]
    return [*(pl.col(name).sum() for name in summed), *parts, *firing]


def _started(plan: Plan, rows: pl.LazyFrame, before: Instant, now: Instant) -> pl.LazyFrame:
    """Fresh windows start their trigger, absorbing ones merge theirs, and all triggers get the new elements."""
    complete = is_complete(plan, before) if not isinstance(plan.view.windows, CountBased) else pl.lit(False)
    moment = Moment(now, complete, pl.lit(False), lambda percent: pl.lit(False))
    start = {
        "__index": pl.lit(0, pl.Int64),
        "__finished": plan.trigger.over(moment),
        "__wake": pl.lit(False),
        **plan.trigger.start(moment),
    }
    rows = rows.with_columns(apply(~pl.col("__stored"), start))
    if plan.merging:
        finished = pl.col("__finished") & plan.trigger.stays(moment)
        merged = {**plan.trigger.after_merge(moment), "__finished": finished}
        rows = rows.with_columns(apply(pl.col("__stored"), merged))
    added = plan.trigger.add(pl.col("__n"), now)
    return rows.with_columns(apply(pl.col("__n") > 0, added)).select(*plan.state_schema, "__n")


def one_row(plan: Plan) -> pl.DataFrame:
    """The state of a view that has one row, before its first element: aggregates of no rows, and a trigger that starts.

    Of other views nothing.
    """
    if not plan.view.has_one_row:
        return nothing(plan.state_schema)
    zeros = [(part.fields, part.zero()) for part in (*plan.columns, *plan.pending)]
    moment = Moment(0, pl.lit(False), pl.lit(False), lambda percent: pl.lit(False))
    known = {
        START: pl.lit(BEGINNING),
        END: pl.lit(FOREVER),
        **{name: pl.lit(zero[name], kind) for fields, zero in zeros for name, kind in fields.items()},
        **dict.fromkeys(("__rows", "__new", "__index"), pl.lit(0)),
        "__finished": plan.trigger.over(moment),
        "__wake": pl.lit(False),
        **plan.trigger.start(moment),
    }
    columns = ((name, known.get(name, pl.lit(None)).cast(kind)) for name, kind in plan.state_schema.items())
    return pl.select(expression.alias(name) for name, expression in columns)


def is_complete(plan: Plan, watermark: Instant) -> pl.Expr:
    """Whether a window is complete: the watermark has reached its end, or it is full."""
    kind = plan.view.windows
    if isinstance(kind, CountWindow):
        return pl.col("__elements") >= kind.size
    return pl.col(END) <= watermark if kind.ends else pl.lit(False)


def is_closed(plan: Plan, watermark: Instant) -> pl.Expr:
    """Whether a window takes no more elements."""
    kind = plan.view.windows
    if isinstance(kind, CountWindow):
        return pl.col("__elements") >= kind.size
    return pl.col(END) <= max(watermark - plan.view.lateness, plan.closed) if kind.ends else pl.lit(False)


# Keys that are forgotten


def is_forgotten(plan: Plan, watermark: Instant) -> pl.Expr:
    """Whether nothing has touched a key for the view's retention."""
    bound = plan.view.forgotten_before(watermark)
    return pl.lit(False) if bound is None else pl.col("__touched") < bound


def _without_forgotten(
    plan: Plan, deltas: pl.DataFrame, touched: pl.DataFrame, before: Instant
) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """Deltas of keys that take them, stored rows that are not forgotten, and the positions of late elements.

    A key takes elements if it is there, or if one of the commit's elements is not older than the retention.
    """
    late = nothing(late_schema())
    if plan.view.forgotten_before(before) is None:
        return deltas, touched, late
    kept = touched.filter(~is_forgotten(plan, before))
    recent = deltas.filter(~is_forgotten(plan, before))
    if recent.height == deltas.height:
        return deltas, kept, late
    live = pl.concat([kept.select(plan.keys), recent.select(plan.keys)]).unique()
    old = deltas.join(live, on=plan.keys, how="anti", nulls_equal=True)
    counts = [pl.col("__n").alias("__missed"), pl.col("__n").alias("__windows")]
    late = old.with_columns(counts).select(list(late_schema()))
    return deltas.join(live, on=plan.keys, how="semi", nulls_equal=True), kept, late


# Windows that merge


def _absorb(
    plan: Plan, deltas: pl.DataFrame, touched: pl.DataFrame, ghosts: pl.DataFrame, before: Instant
) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """Gives stored windows and deltas the bounds of the window that they end up in.

    A delta is late if that window is closed and holds no stored one. What absorbed windows had shown becomes a ghost.
    """
    by = [*plan.keys, START, END]
    bounds = pl.concat(
        [
            touched.select(by).with_columns(pl.lit(True).alias("__stored")),
            deltas.select(by).with_columns(pl.lit(False).alias("__stored")),
        ]
    )
    windows = bounds.group_by(by).agg(pl.col("__stored").any())
    wholes = _session_wholes(plan, windows) if isinstance(plan.view.windows, Session) else _custom_wholes(plan, windows)
    joined = wholes.group_by([*plan.keys, WHOLE_START, WHOLE_END]).agg(pl.col("__stored").any().alias("__open"))
    wholes = wholes.join(joined, on=[*plan.keys, WHOLE_START, WHOLE_END], how="left", nulls_equal=True)
    placed = deltas.join(wholes.drop("__stored"), on=by, how="left", nulls_equal=True)
    late = nothing(late_schema())
    bound = closing_bound(plan, before)
    if bound is not None:
        is_late = ~pl.col("__open") & (pl.col(WHOLE_END) <= bound)
        counts = [pl.col("__n").alias("__missed"), pl.col("__n").alias("__windows")]
        late = placed.filter(is_late).with_columns(counts).select(list(late_schema()))
        placed = placed.filter(~is_late)
    whole = [pl.col(WHOLE_START).alias(START), pl.col(WHOLE_END).alias(END)]
    placed = placed.with_columns(whole).select(*plan.delta_schema)
    moved = touched.join(wholes.drop("__stored", "__open"), on=by, how="left", nulls_equal=True)
    if plan.retracting:
        owners = wholes.select(
            *plan.keys,
            pl.col(START).alias(OWNER_START),
            pl.col(END).alias(OWNER_END),
            WHOLE_START,
            WHOLE_END,
        )
        owned = ghosts.join(owners, on=[*plan.keys, OWNER_START, OWNER_END], how="left", nulls_equal=True)
        owned = owned.with_columns(
            pl.col(WHOLE_START).fill_null(pl.col(OWNER_START)).alias(OWNER_START),
            pl.col(WHOLE_END).fill_null(pl.col(OWNER_END)).alias(OWNER_END),
        )
        grown = (pl.col(START) != pl.col(WHOLE_START)) | (pl.col(END) != pl.col(WHOLE_END))
        new = moved.filter(grown & pl.col("__shown").is_not_null()).with_columns(
            pl.col(WHOLE_START).alias(OWNER_START), pl.col(WHOLE_END).alias(OWNER_END)
        )
        ghosts = pl.concat([owned.select(*plan.ghost_schema), new.select(*plan.ghost_schema)])
        standing = ["__shown", *(shown(name) for name in plan.values)]
        moved = moved.with_columns(pl.when(~grown).then(pl.col(name)).alias(name) for name in standing)
    return placed, moved.with_columns(whole).select(*plan.state_schema), ghosts, late


def _session_wholes(plan: Plan, windows: pl.DataFrame) -> pl.DataFrame:
    """Each window with the span of those of its key that it overlaps or touches, directly or through others."""
    windows = windows.sort([*plan.keys, START, END])
    new = pl.lit(False)
    for name in plan.keys:
        new = new | pl.col(name).ne_missing(pl.col(name).shift(1))
    windows = windows.with_columns(new.fill_null(True).cum_sum().alias("__key"))
    reaches = pl.col(END).cum_max().shift(1).over("__key")
    windows = windows.with_columns((pl.col(START) > reaches).fill_null(True).cum_sum().alias("__group"))
    return windows.with_columns(
        pl.col(START).min().over("__group").alias(WHOLE_START), pl.col(END).max().over("__group").alias(WHOLE_END)
    ).drop("__key", "__group")


def _custom_wholes(plan: Plan, windows: pl.DataFrame) -> pl.DataFrame:
    """The same by the user's own rule, key by key: the one loop over keys that the kernel has."""
    kind = plan.view.windows
    ordered = windows.sort([*plan.keys, START, END])
    keys: list[str | pl.Expr] = [*plan.keys] or [pl.lit(0).alias("__all")]
    whole_start: list[int] = []
    whole_end: list[int] = []
    for bounds in ordered.group_by(keys, maintain_order=True).agg(START, END).select(START, END).iter_rows():
        intervals = [Interval(*pair) for pair in zip(*bounds, strict=True)]
        whole_of = {interval: span(group) for group in kind.groups(intervals) for interval in group}  # type: ignore[attr-defined]
        whole_start += [whole_of[interval].start for interval in intervals]
        whole_end += [whole_of[interval].end for interval in intervals]
    return ordered.with_columns(
        pl.Series(WHOLE_START, whole_start, dtype=pl.Int64), pl.Series(WHOLE_END, whole_end, dtype=pl.Int64)
    )
