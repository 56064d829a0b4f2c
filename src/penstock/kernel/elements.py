"""Events on columns, on their way to a view: the stream's steps and the view's expressions, as one lazy query.

Rows on which an expression fails are told apart only where an expression can fail at all.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import polars as pl

from penstock.errors import RowError
from penstock.kernel.aggregates.base import Columns, canonical
from penstock.kernel.aggregates.monoid import MonoidColumns
from penstock.kernel.aggregates.paired import PairedColumns
from penstock.kernel.expressions import Compiled, compile, dtype
from penstock.kernel.plan import POSITION, Plan, nothing
from penstock.kernel.storable import outside
from penstock.kernel.tables import HIT, find
from penstock.model.aggregates.paired import apart
from penstock.model.expressions import bind
from penstock.model.naming import failing_rows
from penstock.model.stream import Branch, Select, Where, WithTime
from penstock.model.table import TableJoin
from penstock.model.types import Schema

ERROR = pl.col("__error")
HIDDEN = ("__at", *POSITION)


@dataclass
class Elements:
    """What reaches the view, and the positions and reasons of the rows that failed on the way."""

    good: pl.LazyFrame
    dead: pl.DataFrame


def dead_schema() -> dict[str, pl.DataType]:
    return {"__source": pl.Int32(), "__partition": pl.Int32(), "__offset": pl.Int64(), "__reason": pl.String()}


@lru_cache(maxsize=4096)
def compiled(text: str, schema: Schema) -> Compiled:
    """An expression on columns, made once."""
    return compile(bind(text, schema))


class _Walk:
    """The lazy query as it grows, step by step."""

    def __init__(self, frame: pl.LazyFrame, schema: Schema) -> None:
        self.frame, self.schema = frame, schema
        self.hidden = list(HIDDEN)
        self.fallible = False

    def compile(self, text: str) -> Compiled:
        return compiled(text, self.schema)

    def fail(self, *errors: pl.Expr | None) -> None:
        """Notes the first error of a row; it is not asked again."""
        found = [error for error in errors if error is not None]
        if not found:
            return
        known = [ERROR] if self.fallible else []
        self.frame = self.frame.with_columns(pl.coalesce(*known, *found).alias("__error"))
        if not self.fallible:
            self.hidden.append("__error")
        self.fallible = True

    def where(self, text: str) -> None:
        condition = self.compile(text)
        self.fail(condition.error)
        keep = condition.value
        self.frame = self.frame.filter(keep.fill_null(False) | ERROR.is_not_null() if self.fallible else keep)

    def with_time(self, text: str) -> None:
        moved = self.compile(text)
        null = pl.when(moved.value.is_null()).then(pl.lit("the event time is null"))
        self.fail(moved.error, null, outside(moved.value.to_physical()))
        self.frame = self.frame.with_columns(moved.value.to_physical().alias("__at"))

    def select(self, step: Select) -> None:
        made = {name: self.compile(text) for name, text in step.columns}
        self.fail(*(column.error for column in made.values()))
        self.frame = self.frame.select(*self.hidden, *(column.value.alias(name) for name, column in made.items()))
        assert step.schema is not None
        self.schema = step.schema

    def join(self, step: TableJoin) -> None:
        keys = [self.compile(text) for text in step.on]
        self.fail(*(key.error for key in keys))
        found = find(step, self.frame, [key.value for key in keys])
        keep = HIT.is_not_null() | ERROR.is_not_null() if self.fallible else HIT.is_not_null()
        found = found if step.how == "left" else found.filter(keep)
        self.frame = found.select(*self.hidden, *self.schema.names, *(name for name, _ in step.joined))
        self.schema = step.schema


def elements(plan: Plan, branch: Branch, frame: pl.DataFrame) -> Elements:
    """The elements that a branch makes of admitted events (rows of the stream with `__at` and their position)."""
    return _present(plan, _walked(plan, branch, frame))


def can_fail(plan: Plan, branch: Branch) -> bool:
    """Whether an expression of a branch, or of the view, can fail on an event at all."""
    schema = {name: dtype(kind) for name, kind in branch.source.schema}
    hidden = {"__at": pl.Int64(), "__partition": pl.Int32(), "__offset": pl.Int64()}
    walk = _walked(plan, branch, nothing({**schema, **hidden}))
    _view_errors(plan, walk)
    return walk.fallible or any(isinstance(part.columns, MonoidColumns | PairedColumns) for part in plan.aggregates)


def _walked(plan: Plan, branch: Branch, frame: pl.DataFrame) -> _Walk:
    """The steps of a branch."""
    number = pl.lit(plan.sources[branch.source.name], pl.Int32).alias("__source")
    walk = _Walk(frame.lazy().with_columns(number), branch.source.schema)
    if branch.source.sign is not None:
        sign = walk.compile(branch.source.sign)
        wrong = pl.when(sign.value.is_in([1, -1]).fill_null(False).not_()).then(pl.lit("the sign must be +1 or -1"))
        walk.frame = walk.frame.with_columns(sign.value.cast(pl.Int8, strict=False).alias("__sign"))
        walk.hidden.append("__sign")
        walk.fail(sign.error, wrong)
    elif plan.view.signed:
        walk.frame = walk.frame.with_columns(pl.lit(1, pl.Int8).alias("__sign"))
        walk.hidden.append("__sign")
    for step in branch.steps:
        if isinstance(step, Where):
            walk.where(step.condition)
        elif isinstance(step, WithTime):
            walk.with_time(step.expression)
        elif isinstance(step, Select):
            walk.select(step)
        elif isinstance(step, TableJoin):
            walk.join(step)
    return walk


def _view_errors(plan: Plan, walk: _Walk) -> tuple[dict[str, Compiled], dict[str, Compiled]]:
    """The view's own expressions, keys and inputs; on which rows they fail is noted."""
    view = plan.view
    keys = {name: walk.compile(text) for name, text in view.keys}
    inputs = {text: walk.compile(text) for text in plan.inputs}
    errors = [column.error for column in keys.values()]
    errors += [inputs[text].error for text in view.windows.inputs]
    for _, aggregate in view.aggregates:
        where = None if aggregate.where is None else inputs[aggregate.where]
        errors += [] if where is None else [where.error]
        for text in aggregate.inputs:
            error = inputs[text].error
            if error is not None and where is not None:  # behind a filter only the rows that pass it can fail
                error = pl.when(where.value).then(error)
            errors.append(error)
    walk.fail(*errors)
    return keys, inputs


def _present(plan: Plan, walk: _Walk) -> Elements:
    """The view's own expressions: keys, inputs of windows and aggregates, filters."""
    keys, inputs = _view_errors(plan, walk)
    frame = walk.frame
    dead = nothing(dead_schema())
    if walk.fallible:
        collected = frame.collect()
        failed = collected.filter(ERROR.is_not_null())
        if failed.height:
            dead = failed.select(*POSITION, ERROR.alias("__reason"))
            collected = collected.filter(ERROR.is_null())
        frame = collected.lazy()
    good = frame.select(
        *(name for name in walk.hidden if name != "__error"),
        *(canonical(keys[name].value, plan.key_names[name]).alias(name) for name in plan.keys),
        *(inputs[text].value.alias(column) for text, column in plan.inputs.items()),
    )
    for part in plan.aggregates:
        for columns, mine in _apart(part.columns, part.inputs):
            if isinstance(columns, MonoidColumns):
                lifted, failed = _try_monoid(columns, mine, part.where, good.collect())
                good, dead = lifted.lazy(), pl.concat([dead, failed])
    return Elements(good, dead)


def _apart(columns: Columns, inputs: tuple[pl.Expr, ...]) -> list[tuple[Columns, tuple[pl.Expr, ...]]]:
    """The two of a pair: what one of them cannot take is refused live and in batch."""
    if not isinstance(columns, PairedColumns):
        return [(columns, inputs)]
    given = apart(columns.aggregate, inputs)
    return [(part, mine) for part, (_, mine) in zip((columns.live, columns.batch), given, strict=True)]


def _try_monoid(
    columns: MonoidColumns, inputs: tuple[pl.Expr, ...], where: pl.Expr | None, rows: pl.DataFrame
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Tells the rows apart on which a user's lift fails, before they are part of any aggregate."""
    reasons: dict[int, str] = {}
    taken = rows.with_row_index("__element").filter(True if where is None else where)
    values = taken.select("__element", *columns.values(inputs)).drop_nulls()
    for number, *row in values.iter_rows():
        try:
            with failing_rows(f"the monoid {columns.aggregate.name}"):
                columns.aggregate.lifting(*row)
        except RowError as error:
            reasons[number] = error.message
    if not reasons:
        return rows, nothing(dead_schema())
    failed = rows[list(reasons)].with_columns(pl.Series("__reason", list(reasons.values())))
    kept = rows.with_row_index("__element").filter(~pl.col("__element").is_in(list(reasons))).drop("__element")
    return kept, failed.select(list(dead_schema()))
