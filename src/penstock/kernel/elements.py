"""Events on columns, on their way to a view: the stream's steps and the view's expressions, as one lazy query.

Failed rows are separated from the others only where an expression can fail at all.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

import polars as pl

from penstock.errors import RowError
from penstock.kernel.aggregates.base import Columns, canonical
from penstock.kernel.aggregates.monoid import MonoidColumns
from penstock.kernel.aggregates.paired import PairedColumns
from penstock.kernel.expressions import Compiled, compile, dtype, entries
from penstock.kernel.plan import ORDINAL, POSITION, Plan, nothing
from penstock.kernel.python_steps import MadeFrame, made
from penstock.kernel.storable import outside
from penstock.kernel.tables import HIT, find
from penstock.model.aggregates.paired import apart
from penstock.model.counters import collected, count, counter
from penstock.model.explode import Explode
from penstock.model.expressions import bind
from penstock.model.naming import failing_rows
from penstock.model.row_steps import ORDINAL_BITS, Filter, PythonStep
from penstock.model.stream import Branch, Select, Step, Where, WithTime
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


#: The rows that users' functions made of one frame, by the steps before: views that share these steps share the rows.
MadeBefore: TypeAlias = "dict[tuple[object, ...], _Walk]"


#: The counters of one step, by the position of the event; with a mark where several events share them.
StepCounts: TypeAlias = dict[tuple[object, ...], list[tuple[str, int]]]
_SHARED = "shared"


class _Walk:
    """The lazy query as it grows, step by step. `counts` waits for the events to pass all steps."""

    def __init__(self, frame: pl.LazyFrame, schema: Schema, branch: int = 0) -> None:
        self.frame, self.schema, self.branch = frame, schema, branch
        self.hidden = list(HIDDEN)
        self.fallible = False
        self.counts: list[tuple[object, StepCounts]] = []

    def copy(self) -> _Walk:
        """A copy, to which other steps can be added."""
        other = _Walk(self.frame, self.schema, self.branch)
        other.hidden, other.fallible, other.counts = [*self.hidden], self.fallible, [*self.counts]
        return other

    def compile(self, text: str) -> Compiled:
        return compiled(text, self.schema)

    def fail(self, *errors: pl.Expr | None) -> None:
        """Records the first error of each row."""
        new_errors = [error for error in errors if error is not None]
        if not new_errors:
            return
        known = [ERROR] if self.fallible else []
        self.frame = self.frame.with_columns(pl.coalesce(*known, *new_errors).alias("__error"))
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
        joined = find(step, self.frame, [key.value for key in keys])
        keep = HIT.is_not_null() | ERROR.is_not_null() if self.fallible else HIT.is_not_null()
        joined = joined if step.how == "left" else joined.filter(keep)
        self.frame = joined.select(*self.hidden, *self.schema.names, *(name for name, _ in step.joined))
        self.schema = step.schema

    def explode(self, step: Explode) -> None:
        array = self.compile(step.expression)
        self.fail(array.error)
        is_map = len(step.names) == 2
        lists = entries(array.value, bind(step.expression, self.schema).type or "") if is_map else array.value
        if self.fallible:  # a row that has failed stays, once
            lists = pl.when(ERROR.is_null()).then(lists).otherwise(pl.lit([None]))
        frame = self.frame.with_columns(lists.alias("__list"))
        frame = frame.with_columns(pl.int_ranges(0, pl.col("__list").list.len(), dtype=pl.Int64).alias("__number"))
        frame = frame.explode("__list", "__number", empty_as_null=step.outer, keep_nulls=step.outer)
        entry, number = pl.col("__list"), pl.col("__number")
        values = [entry.struct.field("key"), entry.struct.field("value")] if is_map else [entry]
        values += [] if step.position is None else [number.cast(pl.Int32)]
        names = [*step.names, *([] if step.position is None else [step.position])]
        frame = frame.with_columns(value.alias(name) for value, name in zip(values, names, strict=True))
        self.frame = self._ordered(frame, number.fill_null(0)).drop("__list", "__number")
        assert step.schema is not None
        self.schema = step.schema

    def python(self, step: PythonStep, way: object) -> None:
        """Runs a user's function on the rows that have not failed. `way` are the steps so far, with this one."""
        rows = self.frame.collect()
        if not self.fallible:
            rows = rows.with_columns(pl.lit(None, pl.String).alias("__error"))
            self.fallible = True
            self.hidden.append("__error")
        failed, rows = rows.filter(ERROR.is_not_null()), rows.filter(ERROR.is_null())
        results = made(step, rows)
        if results.counts or results.batches:
            self.counts.append((way, _counts_by_event(rows, results)))
        reasons = pl.Series("__error", list(results.failures.values()), dtype=pl.String)
        failed = pl.concat([failed, rows[list(results.failures)].with_columns(reasons)])
        good = rows if results.parents is None else rows[results.parents]
        if not isinstance(step, Filter):
            assert step.schema is not None
            good = good.select(self.hidden).hstack(results.rows)
            failed = failed.select(self.hidden)
            self.schema = step.schema
        numbers = pl.concat([results.numbers, pl.repeat(0, failed.height, dtype=pl.Int64, eager=True)])
        frame = pl.concat([good, failed], how="diagonal").lazy() if failed.height else good.lazy()
        if step.multiplies:
            frame = self._ordered(frame.with_columns(numbers.alias("__number")), pl.col("__number")).drop("__number")
            frame = frame.collect().lazy()
        self.frame = frame

    def _ordered(self, frame: pl.LazyFrame, number: pl.Expr) -> pl.LazyFrame:
        """The frame with `__ordinal`: by the ordinal that rows have already, and then by their number."""
        if ORDINAL not in self.hidden:
            self.hidden.append(ORDINAL)
            return frame.with_columns((number + (self.branch << ORDINAL_BITS)).alias(ORDINAL))
        place = pl.int_range(pl.len(), dtype=pl.Int64).over(POSITION, order_by=[ORDINAL, number])
        return frame.with_columns((place + (self.branch << ORDINAL_BITS)).alias(ORDINAL))


def elements(plan: Plan, branch: Branch, frame: pl.DataFrame, before: MadeBefore | None = None) -> Elements:
    """The elements that a branch makes of admitted events (rows of the stream with `__at` and their position).

    Callers that ask for elements of the same frame several times give the same dictionary `before`: then each user's
    function is called once.
    """
    return _present(plan, _walked(plan, branch, frame, {} if before is None else before))


def can_fail(plan: Plan, branch: Branch) -> bool:
    """Whether an expression of a branch, or of the view, can fail on an event at all."""
    schema = {name: dtype(kind) for name, kind in branch.source.schema}
    hidden = {"__at": pl.Int64(), "__partition": pl.Int32(), "__offset": pl.Int64()}
    walk = _walked(plan, branch, nothing({**schema, **hidden}), {})
    _view_errors(plan, walk)
    return walk.fallible or any(isinstance(part.columns, MonoidColumns | PairedColumns) for part in plan.aggregates)


def _walked(plan: Plan, branch: Branch, frame: pl.DataFrame, before: MadeBefore) -> _Walk:
    """The steps of a branch; from the last one on that was made before."""
    first = _first(plan, branch, frame)
    way = (plan.sources[branch.source.name], first.branch, plan.view.signed)
    python = [number for number, step in enumerate(branch.steps, 1) if isinstance(step, PythonStep)]
    start = next((number for number in reversed(python) if (*way, branch.steps[:number]) in before), 0)
    walk = before[*way, branch.steps[:start]].copy() if start else first
    for number, step in enumerate(branch.steps[start:], start + 1):
        if isinstance(step, PythonStep):
            here = (*way, branch.steps[:number])
            walk.python(step, here)
            before[here] = walk.copy()
        else:
            _take(walk, step)
    if plan.makes_rows and ORDINAL not in walk.hidden:
        walk.frame = walk.frame.with_columns(pl.lit(walk.branch << ORDINAL_BITS, pl.Int64).alias(ORDINAL))
        walk.hidden.append(ORDINAL)
    return walk


def _first(plan: Plan, branch: Branch, frame: pl.DataFrame) -> _Walk:
    """The events before the first step."""
    number = pl.lit(plan.sources[branch.source.name], pl.Int32).alias("__source")
    walk = _Walk(frame.lazy().with_columns(number), branch.source.schema)
    if plan.makes_rows:
        walk.branch = plan.branches.index(branch)
    if branch.source.sign is not None:
        sign = walk.compile(branch.source.sign)
        wrong = pl.when(sign.value.is_in([1, -1]).fill_null(False).not_()).then(pl.lit("the sign must be +1 or -1"))
        walk.frame = walk.frame.with_columns(sign.value.cast(pl.Int8, strict=False).alias("__sign"))
        walk.hidden.append("__sign")
        walk.fail(sign.error, wrong)
    elif plan.view.signed:
        walk.frame = walk.frame.with_columns(pl.lit(1, pl.Int8).alias("__sign"))
        walk.hidden.append("__sign")
    return walk


def _take(walk: _Walk, step: Step) -> None:
    match step:
        case Where():
            walk.where(step.condition)
        case WithTime():
            walk.with_time(step.expression)
        case Select():
            walk.select(step)
        case TableJoin():
            walk.join(step)
        case Explode():
            walk.explode(step)


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
    """The view's own expressions: keys, inputs of windows and aggregates, filters.

    Events that pass them all are what user code has counted for.
    """
    keys, inputs = _view_errors(plan, walk)
    frame = walk.frame
    dead = nothing(dead_schema())
    if walk.fallible:
        collected = frame.collect()
        failed = collected.filter(ERROR.is_not_null())
        if failed.height:
            failed = failed.with_columns(ERROR.alias("__reason"))
            dead = _dead(plan, failed)
            collected = _without(plan, collected.filter(ERROR.is_null()), dead)
        frame = collected.lazy()
    good = frame.select(
        *(name for name in walk.hidden if name != "__error"),
        *(canonical(keys[name].value, plan.key_names[name]).alias(name) for name in plan.keys),
        *(inputs[text].value.alias(column) for text, column in plan.inputs.items()),
    )
    for part in plan.aggregates:
        for columns, part_inputs in _apart(part.columns, part.inputs):
            if isinstance(columns, MonoidColumns):
                lifted, failed = _try_monoid(columns, part_inputs, part.where, good.collect())
                failed = _dead(plan, failed)
                good, dead = _without(plan, lifted, failed).lazy(), pl.concat([dead, failed])
    _count(walk, dead)
    return Elements(good, dead)


def _counts_by_event(rows: pl.DataFrame, results: MadeFrame) -> StepCounts:
    """The counters of a step, by the event that its row came from."""
    counts: StepCounts = {}
    positions = rows.select(POSITION)
    for shared, several in (((), results.counts), ((_SHARED,), results.batches)):
        for one in several:
            counts.setdefault((*positions.row(one.row), *shared), []).append((one.name, one.number))
    return counts


def _count(walk: _Walk, dead: pl.DataFrame) -> None:
    """Adds the counters of events that are not dead. Views that share the steps do not add them again."""
    if not walk.counts:
        return
    positions = set(dead.select(POSITION).iter_rows())
    for way, counts in walk.counts:
        for event in [event for event in counts if event not in positions]:
            count(counts.pop(event), (way, event))


def _dead(plan: Plan, failed: pl.DataFrame) -> pl.DataFrame:
    """The positions and reasons of rows that failed. An event of which several rows failed has the first one's."""
    if plan.makes_rows:
        failed = failed.sort(ORDINAL).unique(POSITION, keep="first", maintain_order=True)
    return failed.select(list(dead_schema()))


def _without(plan: Plan, rows: pl.DataFrame, dead: pl.DataFrame) -> pl.DataFrame:
    """The rows without those that were made of events of which another row failed."""
    return rows.join(dead, on=POSITION, how="anti") if plan.makes_rows and dead.height else rows


def _apart(columns: Columns, inputs: tuple[pl.Expr, ...]) -> list[tuple[Columns, tuple[pl.Expr, ...]]]:
    """The two aggregates of a pair: a row that one of them cannot take is rejected live and in batch."""
    if not isinstance(columns, PairedColumns):
        return [(columns, inputs)]
    (_, live), (_, batch) = apart(columns.aggregate, inputs)
    return [(columns.live, live), (columns.batch, batch)]


def _try_monoid(
    columns: MonoidColumns, inputs: tuple[pl.Expr, ...], where: pl.Expr | None, rows: pl.DataFrame
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Separates the rows on which a user's lift fails, before they are part of any aggregate."""
    reasons: dict[int, str] = {}
    taken = rows.with_row_index("__element").filter(True if where is None else where)
    values = taken.select("__element", *columns.values(inputs)).drop_nulls()
    with collected() as counts:
        for number, *row in values.iter_rows():
            try:
                with failing_rows(f"the monoid {columns.aggregate.name}"):
                    columns.aggregate.lifting(*row)
                if counts.new:
                    counts.keep()
            except RowError as error:
                counts.drop()
                reasons[number] = error.message
    for name, number in counts.sums.items():
        counter(name).add(number)
    if not reasons:
        return rows, rows.clear().with_columns(pl.lit(None, pl.String).alias("__reason"))
    failed = rows[list(reasons)].with_columns(pl.Series("__reason", list(reasons.values())))
    kept = rows.with_row_index("__element").filter(~pl.col("__element").is_in(list(reasons))).drop("__element")
    return kept, failed
