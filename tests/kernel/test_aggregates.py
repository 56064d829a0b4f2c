"""The kernel's aggregates against the model's: random rows, cut into random batches, combined in random trees."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, TypeAlias

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock.model.aggregates as ps
from penstock.errors import DefinitionError
from penstock.kernel.aggregates import Columns, columns
from penstock.kernel.aggregates.base import combine_places
from penstock.kernel.aggregates.order import all_places
from penstock.kernel.aggregates.plain import from_python
from penstock.model.aggregates import Aggregate, Moments, Origin, Value
from tests.model.test_aggregates import CASES, alike, retractable, values_of

Types: TypeAlias = tuple[str, ...]


@dataclass(frozen=True)
class Row:
    """A row as the kernel gets it; `take` is the value of the aggregate's filter."""

    group: int
    values: tuple[Value, ...]
    take: bool | None
    origin: Origin
    sign: int = 1


def by_model(aggregate: Aggregate, rows: Sequence[Row]) -> dict[int, Value]:
    """The specification: one element at a time."""
    partials = {row.group: aggregate.zero() for row in rows}
    for row in rows:
        if row.take:
            lifted = aggregate.lift(row.values, row.origin)
            signed = lifted if row.sign > 0 else aggregate.inverse(lifted)
            partials[row.group] = aggregate.merge(partials[row.group], signed)
    return {group: aggregate.present(partial) for group, partial in partials.items()}


def frame_of(rows: Sequence[Row], types: Types) -> pl.DataFrame:
    inputs = {f"x{i}": from_python(f"x{i}", [row.values[i] for row in rows], kind) for i, kind in enumerate(types)}
    return pl.DataFrame(
        {
            "group": pl.Series([row.group for row in rows], dtype=pl.Int64),
            **inputs,
            "take": pl.Series([row.take for row in rows], dtype=pl.Boolean),
            "__at": pl.Series([row.origin.at for row in rows], dtype=pl.Int64),
            "__partition": pl.Series([row.origin.partition for row in rows], dtype=pl.Int32),
            "__offset": pl.Series([row.origin.offset for row in rows], dtype=pl.Int64),
            "__sign": pl.Series([row.sign for row in rows], dtype=pl.Int8),
        }
    )


def reduced(all_of: Sequence[Columns], frame: pl.DataFrame, where: pl.Expr | None) -> pl.DataFrame:
    """All aggregates in one pass over the rows, as the kernel does it."""
    inputs = [tuple(pl.col(f"x{i}") for i in range(len(of.types))) for of in all_of]
    exprs = [expr for of, xs in zip(all_of, inputs, strict=True) for expr in of.reduce(xs, where)]
    orders = [order for of, xs in zip(all_of, inputs, strict=True) for order in of.reduce_orders(xs, where)]
    return settled(all_of, frame.with_columns(all_places(orders)).group_by("group").agg(exprs))


def combined(all_of: Sequence[Columns], frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    frame = pl.concat(frames).with_columns(combine_places(all_of))
    return settled(all_of, frame.group_by("group").agg(expr for of in all_of for expr in of.combine()))


def settled(all_of: Sequence[Columns], partials: pl.DataFrame) -> pl.DataFrame:
    """The declared columns and no others, in any order."""
    for of in all_of:
        assert of.needs_settle or of.fields.keys() <= set(partials.columns)
        partials = of.settle(partials) if of.needs_settle else partials
    assert dict(partials.schema) == {"group": pl.Int64(), **fields_of(all_of)}
    return partials.select("group", *fields_of(all_of))


def fields_of(all_of: Sequence[Columns]) -> dict[str, pl.DataType]:
    return {field: kind for of in all_of for field, kind in of.fields.items()}


def zeros(all_of: Sequence[Columns], groups: Sequence[int]) -> pl.DataFrame:
    values = {field: value for of in all_of for field, value in of.zero().items()}
    empty = {field: pl.Series([values[field]] * len(groups), dtype=kind) for field, kind in fields_of(all_of).items()}
    return pl.DataFrame({"group": pl.Series(groups, dtype=pl.Int64), **empty})


def presented(of: Columns, partials: pl.DataFrame) -> dict[int, Value]:
    answers = of.present(partials)
    assert (answers.name, answers.dtype) == (of.name, of.result)
    expression = of.present_expr()
    assert expression is None or partials.select(expression).to_series().equals(answers, check_names=True)
    return dict(zip(partials["group"].to_list(), plain(answers).to_list(), strict=True))


def plain(values: pl.Series) -> pl.Series:
    """Dates and timestamps as the numbers that the model has."""
    kind = values.dtype
    if isinstance(kind, pl.List) and isinstance(kind.inner, pl.Struct):
        item = kind.inner.fields[0].dtype
        return values.cast(pl.List(pl.Struct({"item": physical(item), "estimate": pl.Int64()})))
    return values.cast(pl.List(physical(kind.inner)) if isinstance(kind, pl.List) else physical(kind))


def physical(kind: Any) -> Any:
    return pl.Int64 if kind in (pl.Date, pl.Datetime) else kind


def by_kernel(all_of: Sequence[Columns], rows: Sequence[Row], types: Types, data: st.DataObject) -> pl.DataFrame:
    """Partials, after any cut into batches and any tree of merges."""
    cuts = sorted(data.draw(st.lists(st.integers(0, len(rows)), max_size=4), "cuts"))
    batches = [rows[a:b] for a, b in zip([0, *cuts], [*cuts, len(rows)], strict=True)]
    where = None if all(row.take for row in rows) else pl.col("take")
    frames = [reduced(all_of, frame_of(batch, types), where) for batch in batches]
    frames.append(zeros(all_of, sorted({row.group for row in rows})))
    while len(frames) > 1:
        some = data.draw(st.integers(2, len(frames)), "merged at once")
        frames = [*frames[some:], combined(all_of, frames[:some])]
        frames = frames[::-1] if data.draw(st.booleans(), "turned round") else frames
    return frames[0]


def slack(aggregate: Aggregate, types: Types, rows: Sequence[Row]) -> float:
    """What one group may be off by beyond 10⁻⁹ of its answer: the rounding of its own doubles, where they cancel.

    Rows that were taken back do not count: nothing of them may stay. Whole numbers and decimals get no slack in sums
    and averages, which are exact.
    """
    if not isinstance(aggregate, (Moments, ps.Sum, ps.Avg)):
        return 0.0
    if not isinstance(aggregate, Moments) and types[0] not in ("float", "double"):
        return 0.0
    left: Counter[float] = Counter()
    for row in rows:
        (value,) = row.values
        if row.take and isinstance(value, (int, float, Decimal)) and math.isfinite(value):
            left[abs(float(value))] += row.sign
    power = 2 if isinstance(aggregate, Moments) else 1
    return 1e-14 * sum(size**power * times for size, times in left.items())


def assert_same(
    aggregate: Aggregate, types: Types, rows: Sequence[Row], found: dict[int, Value], expected: dict[int, Value]
) -> None:
    assert found.keys() == expected.keys()
    for group, value in expected.items():
        allowed = slack(aggregate, types, [row for row in rows if row.group == group])
        assert near(aggregate, found[group], value, allowed), (aggregate, group, found[group], value, allowed)


def near(aggregate: Aggregate, a: Value, b: Value, allowed: float) -> bool:
    """Alike within the slack. Deviations are compared as variances, where the rounding happens."""
    if isinstance(aggregate, Moments) and aggregate.root and isinstance(a, float) and isinstance(b, float):
        a, b = a * a, b * b
    return alike(a, b, allowed)


def rows_of(types: Types) -> st.SearchStrategy[list[Row]]:
    row = st.tuples(
        st.integers(0, 2), st.tuples(*map(values_of, types)), st.sampled_from([True, True, True, False, None]),
        st.integers(0, 3), st.integers(0, 1),
    )  # fmt: skip
    return st.lists(row, max_size=20).map(
        lambda rows: [Row(g, v, take, Origin(at, p, offset)) for offset, (g, v, take, at, p) in enumerate(rows)]
    )


#: Aggregates that share their inputs' types are computed together.
TOGETHER: dict[Types, list[Aggregate]] = {}
for _aggregate, _types in CASES:
    TOGETHER.setdefault(_types, []).append(_aggregate)
#: A hundred times more with PENSTOCK_DEEP=1.
RANDOM = settings(max_examples=400 if os.environ.get("PENSTOCK_DEEP") == "1" else 4, deadline=None)
EVERY = pytest.mark.parametrize(("types", "aggregates"), TOGETHER.items(), ids=map(", ".join, TOGETHER))


@EVERY
@RANDOM
@given(st.data())
def test_the_kernel_answers_as_the_model(types: Types, aggregates: list[Aggregate], data: st.DataObject) -> None:
    rows = data.draw(rows_of(types), "rows")
    if data.draw(st.booleans(), "all taken"):
        rows = [replace(row, take=True) for row in rows]
    alone = data.draw(st.booleans(), "not in a union")
    all_of = [columns(aggregate, f"a{i}", types, alone=alone) for i, aggregate in enumerate(aggregates)]
    partials = by_kernel(all_of, rows, types, data)
    for of, aggregate in zip(all_of, aggregates, strict=True):
        assert_same(aggregate, types, rows, presented(of, partials), by_model(aggregate, rows))


@EVERY
@RANDOM
@given(st.data())
def test_the_kernel_takes_rows_back_as_the_model(
    types: Types, aggregates: list[Aggregate], data: st.DataObject
) -> None:
    inserted = data.draw(rows_of(types), "rows")
    again = data.draw(st.lists(st.sampled_from(inserted), unique=True) if inserted else st.just([]), "taken back")
    back = [replace(row, origin=Origin(row.origin.at, 7, i), sign=-1) for i, row in enumerate(again)]
    rows = data.draw(st.permutations([*inserted, *back]), "order")
    signed = [aggregate for aggregate in aggregates if retractable(aggregate)]
    all_of = [columns(aggregate, f"a{i}", types, signed=True) for i, aggregate in enumerate(signed)]
    partials = by_kernel(all_of, rows, types, data)
    for of, aggregate in zip(all_of, signed, strict=True):
        assert_same(aggregate, types, rows, presented(of, partials), by_model(aggregate.retractable(), rows))
    gone = partials.with_columns(expr for of in all_of for expr in of.negate())
    nothing = [replace(row, take=False) for row in rows]
    partials = combined(all_of, [partials, gone])
    for of, aggregate in zip(all_of, signed, strict=True):
        assert_same(aggregate, types, nothing, presented(of, partials), by_model(aggregate, nothing))


@pytest.mark.parametrize("gone", [1e15, float("inf"), -float("inf"), float("nan")])
def test_nothing_is_left_of_a_float_that_was_taken_back(gone: float) -> None:
    rows = [Row(0, (value,), True, Origin(0, 0, i)) for i, value in enumerate((0.1, gone, 0.3))]
    back = replace(rows[1], origin=Origin(0, 0, 9), sign=-1)
    for aggregate, left in ((ps.sum("x"), 0.1 + 0.3), (ps.avg("x"), 0.2), (ps.var_pop("x"), 0.01)):
        of = columns(aggregate, "answer", ("double",), signed=True)
        parts = [reduced([of], frame_of(batch, ("double",)), None) for batch in (rows, [back])]
        found = presented(of, combined([of], parts))[0]
        assert alike(found, left), (aggregate, found)


def test_columns_without_an_inverse_say_how_to_get_one() -> None:
    with pytest.raises(DefinitionError, match="signed=True"):
        columns(ps.max("x"), "answer", ("int",)).negate()


def test_a_narrow_integer_sum_does_not_wrap() -> None:
    of = columns(ps.sum("x"), "answer", ("tinyint",))
    frame = frame_of([Row(0, (127,), True, Origin(0, 0, i)) for i in range(1000)], ("tinyint",))
    assert presented(of, reduced([of], frame, None)) == {0: 127_000}


def test_a_group_that_is_filtered_out_is_like_an_empty_one() -> None:
    rows = [Row(0, (5,), False, Origin(0, 0, 0)), Row(0, (6,), None, Origin(0, 0, 1))]
    for aggregate, empty in ((ps.count(), 0), (ps.sum("x"), None), (ps.first("x"), None), (ps.collect_list("x"), [])):
        types = ("int",) * len(aggregate.inputs)
        of = columns(aggregate, "answer", types)
        assert presented(of, reduced([of], frame_of(rows, ("int",)), pl.col("take"))) == {0: empty}
