"""Fire: judges the triggers of windows and makes panes, for all windows of a commit at once.

The caller brings the windows that the commit touched and those that time has made due (`due`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import polars as pl

from penstock.kernel.aggregates import Columns
from penstock.kernel.elements import compiled
from penstock.kernel.expressions import dtype
from penstock.kernel.merge import is_closed, is_complete, is_forgotten
from penstock.kernel.plan import END, OWNER_END, OWNER_START, START, Plan, nothing, shown
from penstock.kernel.triggers import Moment, apply
from penstock.model.time import Instant
from penstock.model.triggers import Completeness, Never, Trigger
from penstock.model.view import WINDOW_COLUMNS
from penstock.model.windows import CountBased, Global

PANE = ("__insert", "__timing", "__index", "__final")


@dataclass(frozen=True)
class Time:
    """A commit's time: the watermark when it began and when it ends, the clock, and the percentile watermarks."""

    before: Instant
    after: Instant
    now: Instant
    reached: Callable[[float], Instant]


@dataclass
class Fired:
    """The windows after they were judged: those that live on, those that are closed, and the panes."""

    live: pl.DataFrame
    closed: pl.DataFrame
    panes: pl.DataFrame
    ghosts: pl.DataFrame


def due(plan: Plan, time: Time) -> pl.Expr:
    """Which stored windows time alone may have made ready, or forgotten. A superset does no harm."""
    conditions = [pl.col("__wake"), ~pl.col("__finished") & (plan.trigger.due() <= time.now)]
    if plan.forgets:
        conditions.append(is_forgotten(plan, time.after))
    if plan.view.windows.ends_in_event_time:
        passed = pl.col(END).is_between(time.before, time.after, closed="right")
        conditions += [passed, is_closed(plan, time.after)]
        furthest = max((time.reached(percent) for percent in percents(plan.view.firing)), default=time.after)
        if furthest > time.after:
            conditions.append(pl.col(END).is_between(time.after, furthest, closed="right"))
    return pl.any_horizontal(*conditions)


def percents(trigger: Trigger) -> list[float]:
    """The percentages of completeness that a trigger asks for."""
    own = [trigger.percent] if isinstance(trigger, Completeness) else []
    return own + [percent for part in trigger.parts for percent in percents(part)]


def pane_schema(plan: Plan) -> dict[str, pl.DataType]:
    """A pane's columns: key, window, values, whether it inserts or retracts, timing, index, final."""
    schema: dict[str, pl.DataType] = {**plan.key_types, START: pl.Int64(), END: pl.Int64()}
    schema |= plan.values
    kinds: dict[str, pl.DataType] = dict(zip(PANE, (pl.Boolean(), pl.String(), pl.Int64(), pl.Boolean()), strict=True))
    return schema | kinds


def fire(plan: Plan, rows: pl.DataFrame, ghosts: pl.DataFrame, time: Time, *, panes: bool = True) -> Fired:
    """Judges each window once. `ghosts` are those of the rows' keys. Without `panes` those that fire are not made."""
    if plan.view.firing == Never():
        gone = is_closed(plan, time.after)
        return Fired(rows.filter(~gone), rows.filter(gone), nothing(pane_schema(plan)), ghosts)
    complete = is_complete(plan, time.after)
    before = pl.lit(False) if isinstance(plan.view.windows, CountBased) else is_complete(plan, time.before)
    judged = rows.lazy().with_columns(
        complete.alias("__complete"),
        (complete & ~before).alias("__passes"),
        is_closed(plan, time.after).alias("__closed"),
    )
    moment = Moment(
        time.now, pl.col("__complete"), pl.col("__closed"), lambda percent: pl.col(END) <= time.reached(percent)
    )
    judged = judged.with_columns((~pl.col("__finished") & plan.trigger.ready(moment)).alias("__ready"))
    ready, new = pl.col("__ready"), pl.col("__new") > 0
    shows = new | pl.col("__passes") if plan.view.firing.fires_unchanged else new
    rest = ~ready & ~pl.col("__finished") & pl.col("__closed") & new & plan.trigger.shows_rest()
    judged = judged.with_columns(((ready & shows) | rest).alias("__fires"))
    updates, finished = plan.trigger.fired(moment)
    judged = judged.with_columns(
        *apply(ready, updates),
        (pl.col("__finished") | (ready & finished)).alias("__finished"),
        (ready & ~finished if plan.trigger.chains else pl.lit(False)).alias("__wake"),
    )
    rows = judged.collect()
    firing = rows.filter(pl.col("__fires"))
    if not firing.height:
        return _sorted_out(plan, rows, nothing(pane_schema(plan)), ghosts)
    made, firing, ghosts = _panes(plan, firing, ghosts)
    shown_panes = _in_order(plan, made) if panes else nothing(pane_schema(plan))
    rest_of = rows.filter(~pl.col("__fires"))
    return _sorted_out(plan, pl.concat([rest_of, firing.select(rest_of.columns)]), shown_panes, ghosts)


def _sorted_out(plan: Plan, rows: pl.DataFrame, panes: pl.DataFrame, ghosts: pl.DataFrame) -> Fired:
    gone = rows["__closed"].any()
    live, closed = (rows.filter(~pl.col("__closed")), rows.filter("__closed")) if gone else (rows, rows.clear())
    if ghosts.height and closed.height:
        owners = closed.select(*plan.keys, pl.col(START).alias(OWNER_START), pl.col(END).alias(OWNER_END))
        ghosts = ghosts.join(owners, on=[*plan.keys, OWNER_START, OWNER_END], how="anti", nulls_equal=True)
    return Fired(live.select(*plan.state_schema), closed.select(*plan.state_schema), panes, ghosts)


def present(columns: list[Columns], frame: pl.DataFrame) -> list[pl.Series]:
    """The answers of several aggregates; those that are expressions in one pass."""
    expressions = [(part, part.present_expr()) for part in columns]
    cheap = frame.select(e.alias(part.name) for part, e in expressions if e is not None)
    return [cheap[part.name] if e is not None else part.present(frame) for part, e in expressions]


def shows(plan: Plan, frame: pl.DataFrame, columns: list[Columns]) -> tuple[list[pl.Series], pl.Series | None]:
    """A window's values as the view shows them, and whether it shows them at all; None where it always does."""
    answers = [series.alias(part.name) for part, series in zip(plan.columns, present(columns, frame), strict=True)]
    if plan.view.shown is None and plan.view.condition is None:
        return answers, None
    schema = plan.view.result_schema
    rows = pl.DataFrame([*frame.select(*plan.keys, *_bounds(plan)).get_columns(), *answers])

    def value(text: str) -> pl.Expr:
        made = compiled(text, schema)
        return made.value if made.error is None else pl.when(made.error.is_null()).then(made.value)

    if plan.view.shown is not None:
        made = (value(text).cast(plan.values[name]).alias(name) for name, text in plan.view.shown)
        answers = rows.select(made).get_columns()
    if plan.view.condition is None:
        return answers, None
    return answers, rows.select(value(plan.view.condition).fill_null(False).alias("__holds")).to_series()


def _bounds(plan: Plan) -> list[pl.Expr]:
    """The window as expressions see it."""
    if isinstance(plan.view.windows, Global):
        return []
    bounds = zip((START, END), WINDOW_COLUMNS, strict=True)
    kind = dtype("bigint" if isinstance(plan.view.windows, CountBased) else "timestamp")
    return [pl.col(bound).cast(kind).alias(name) for bound, name in bounds]


def _in_order(plan: Plan, panes: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Panes by key and window, with what is taken back before what stands for it."""
    order = [*plan.keys, OWNER_START, OWNER_END, "__insert", START, END, "__index"]
    schema = pane_schema(plan)
    columns = [*schema, OWNER_START, OWNER_END]
    return pl.concat([frame.select(columns) for frame in panes]).sort(order).select(*schema)


def _panes(
    plan: Plan, firing: pl.DataFrame, ghosts: pl.DataFrame
) -> tuple[list[pl.DataFrame], pl.DataFrame, pl.DataFrame]:
    """The panes of the windows that fire, and their state after that."""
    names = list(plan.values)
    columns = plan.pending if plan.discarding else plan.columns
    values, holds = shows(plan, firing, columns)
    timing = (
        pl.when(~pl.col("__complete"))
        .then(pl.lit("early"))
        .when(pl.col("__passes"))
        .then(pl.lit("on time"))
        .otherwise(pl.lit("late"))
    )
    firing = firing.with_columns(timing.alias("__timing"))
    window = [pl.col(START).alias(OWNER_START), pl.col(END).alias(OWNER_END)]
    shown_now = firing.select(
        *plan.keys, START, END, "__timing", "__index", pl.col("__closed").alias("__final"), *window
    ).with_columns(pl.lit(True).alias("__insert"), *values)
    panes = [shown_now]
    nothing = pl.lit(False) if holds is None else pl.lit(~holds)
    if plan.retracting:
        retracted, ghosts = _retractions(plan, firing, ghosts)
        panes = [*retracted, shown_now]
        if plan.view.signed:
            nothing = nothing | (pl.col("__rows") == 0)  # all its rows were retracted: no pane is shown
    if holds is not None or (plan.retracting and plan.view.signed):
        panes[-1] = shown_now.filter(~firing.select(nothing.alias("__nothing")).to_series())
    updates = [
        pl.lit(0, pl.Int64).alias("__new"),
        (pl.col("__index") + (~nothing).cast(pl.Int64)).alias("__index"),
    ]
    for part in plan.pending:
        zero = part.zero()
        updates += [pl.lit(zero[name], kind).alias(name) for name, kind in part.fields.items()]
    if plan.retracting:
        updates.append(pl.when(~nothing).then(pl.col("__index")).alias("__shown"))
    after = firing.with_columns(updates)
    if plan.retracting:
        after = after.with_columns(series.alias(shown(name)) for name, series in zip(names, values, strict=True))
    return panes, after, ghosts


def _retractions(plan: Plan, firing: pl.DataFrame, ghosts: pl.DataFrame) -> tuple[list[pl.DataFrame], pl.DataFrame]:
    """Retracts the last panes of the firing windows, and of windows that they absorbed."""
    taken_back = [
        pl.lit(False).alias("__insert"),
        pl.lit(False).alias("__final"),
        pl.col("__shown").alias("__index"),
        *(pl.col(shown(name)).alias(name) for name in plan.values),
    ]
    own = firing.filter(pl.col("__shown").is_not_null()).with_columns(
        *taken_back, pl.col(START).alias(OWNER_START), pl.col(END).alias(OWNER_END)
    )
    if not ghosts.height:
        return [own], ghosts
    owner = [*plan.keys, OWNER_START, OWNER_END]
    owners = firing.select(*plan.keys, pl.col(START).alias(OWNER_START), pl.col(END).alias(OWNER_END), "__timing")
    haunted = ghosts.join(owners, on=owner, nulls_equal=True).with_columns(taken_back)
    return [own, haunted], ghosts.join(owners, on=owner, how="anti", nulls_equal=True)
