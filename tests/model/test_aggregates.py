"""The laws of every aggregate, on random rows: zero, commutative, associative, inverse; and what they answer."""

from __future__ import annotations

import math
import os
import random
from decimal import Decimal
from typing import Any, TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock.model.aggregates as ps
from penstock.errors import DefinitionError
from penstock.model.aggregates import Aggregate, Origin, Partial
from penstock.model.order import canonical, key, value_of

Types: TypeAlias = tuple[str, ...]
nan, inf = math.nan, math.inf

#: Values of each type: few, so that ties and repetitions are common; among them the edges.
VALUES: dict[str, list[Any]] = {
    "tinyint": [0, 1, -128, 127],
    "smallint": [0, 5, -32768, 32767],
    "int": [0, 1, 2, -3, 2**31 - 1, -(2**31)],
    "bigint": [0, 1, -1, 7, 2**63 - 1, -(2**63), 2**62, 2**32, -(2**32) - 1],
    "float": [0.0, -0.0, 1.5, -2.25, 0.5, nan, inf, -inf],
    "double": [0.0, -0.0, 1.5, -2.25, 0.1, 0.3, 1e15, -1e15, nan, inf, -inf],
    "boolean": [True, False],
    "string": ["", "a", "b", "ab", "é", "\U0001f600", "\uffff"],
    "binary": [b"", b"a", b"\xff", b"\x00"],
    "date": [0, 1, -1, 19_000],
    "timestamp": [0, 1, -1, 1_700_000_000_000_000],
    "decimal(10,2)": [Decimal("0.00"), Decimal("1.25"), Decimal("-99999999.99"), Decimal("99999999.99")],
    "decimal(20,3)": [Decimal("0.000"), Decimal("0.001"), Decimal("-99999999999999999.999")],
    "decimal(38,0)": [Decimal(0), Decimal(7), Decimal("9" * 38), Decimal("-" + "9" * 38)],
}
SCALARS = tuple(VALUES)
NUMBERS = ("tinyint", "smallint", "int", "bigint", "float", "double", "decimal(10,2)", "decimal(20,3)", "decimal(38,0)")


def longest(text: str, number: int) -> list[Any]:
    return [len(text), number]


def pairwise(a: list[Any], b: list[Any]) -> list[Any]:
    return [max(a[0], b[0]), a[1] + b[1]]


OWN = ps.monoid("own", "x", "y", lift=longest, merge=pairwise, zero=[-1, 0], present=str)
ADDED = ps.monoid("added", "x", lift=int, merge=int.__add__, zero=0, inverse=int.__neg__, result_type="bigint")


def _cases() -> list[tuple[Aggregate, tuple[str, ...]]]:
    cases: list[tuple[Aggregate, tuple[str, ...]]] = [(ps.count(), ())]
    for kind in SCALARS:
        plain = [ps.count("x"), ps.min("x"), ps.max("x"), ps.first("x"), ps.last("x"), ps.collect_set("x")]
        plain += [ps.count_distinct("x"), ps.collect_list("x"), ps.top(2, "x"), ps.second_moment("x", width=8, depth=3)]
        plain += [ps.top(2, "x", ties=True)]
        plain += [ps.heavy_hitters("x", limit=3)]
        plain += [] if kind == "binary" else [ps.approx_distinct("x", lg_k=4)]
        cases += [(aggregate, (kind,)) for aggregate in plain]
    for kind in NUMBERS:
        numeric = [ps.sum("x"), ps.avg("x"), ps.variance("x"), ps.var_pop("x"), ps.stddev("x"), ps.stddev_pop("x")]
        cases += [(aggregate, (kind,)) for aggregate in [*numeric, ps.quantile("x", 0.5), ps.quantile("x", [0, 0.9])]]
    for kind in ("int", "double", "string", "timestamp", "boolean", "decimal(10,2)", "binary"):
        cases += [(ps.min_by("x", "y"), ("string", kind)), (ps.max_by("x", "y"), ("double", kind))]
        cases += [
            (ps.top(3, "y", value="x"), (kind, "string")),
            (ps.top(1, "y", value="x", ties=True), (kind, "string")),
        ]
    cases += [(ps.collect_list("x", order="position"), ("string",)), (OWN, ("string", "int")), (ADDED, ("int",))]
    return cases


CASES = _cases()
IDS = [f"{aggregate!r} of {', '.join(types)}" for aggregate, types in CASES]
#: A hundred times more with PENSTOCK_DEEP=1.
RANDOM = settings(max_examples=800 if os.environ.get("PENSTOCK_DEEP") == "1" else 8, deadline=None)
EVERY = pytest.mark.parametrize(("aggregate", "types"), CASES, ids=IDS)


def values_of(kind: str) -> st.SearchStrategy[Any]:
    return st.sampled_from([None, *VALUES[kind]])


def rows_of(types: Types) -> st.SearchStrategy[tuple[tuple[Any, ...], Origin]]:
    origin = st.builds(Origin, st.integers(0, 3), st.integers(0, 1), st.integers(0, 3))
    return st.tuples(st.tuples(*map(values_of, types)), origin)


def alike(a: Any, b: Any, slack: float = 0.0) -> bool:
    """Equal; NaN is NaN, and floats may differ by 10⁻⁹ of themselves, or by the slack."""
    if isinstance(a, float) and isinstance(b, (int, float)):
        if math.isnan(a) or math.isnan(b):
            return math.isnan(a) and math.isnan(b)
        return a == b or math.isclose(a, b, rel_tol=1e-9, abs_tol=slack)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(alike(x, y, slack) for x, y in zip(a, b, strict=True))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(alike(a[name], b[name]) for name in a)
    return type(a) is type(b) and a == b


def same(aggregate: Aggregate, a: Partial, b: Partial) -> bool:
    """Equal partials; of a sketch, equal answers: its bytes tell the order in which it was fed."""
    return a == b if aggregate.exact else alike(aggregate.present(a), aggregate.present(b))


def total(aggregate: Aggregate, partials: list[Partial]) -> Partial:
    result = aggregate.zero()
    for partial in partials:
        result = aggregate.merge(result, partial)
    return result


@EVERY
@RANDOM
@given(st.data())
def test_every_aggregate_is_a_commutative_monoid(aggregate: Aggregate, types: Types, data: st.DataObject) -> None:
    _check_laws(aggregate, types, data)


def _check_laws(aggregate: Aggregate, types: Types, data: st.DataObject) -> None:
    def draw() -> Partial:
        return total(aggregate, [aggregate.lift(*row) for row in data.draw(st.lists(rows_of(types), max_size=4))])

    a, b, c = draw(), draw(), draw()
    before = repr((a, b))
    assert same(aggregate, aggregate.merge(a, aggregate.zero()), a)
    assert same(aggregate, aggregate.merge(aggregate.zero(), a), a)
    assert same(aggregate, aggregate.merge(a, b), aggregate.merge(b, a))
    left, right = aggregate.merge(aggregate.merge(a, b), c), aggregate.merge(a, aggregate.merge(b, c))
    assert same(aggregate, left, right)
    assert repr((a, b)) == before, "merge changed its arguments"


def retractable(aggregate: Aggregate) -> bool:
    try:
        aggregate.retractable()
    except DefinitionError:
        return False
    return True


SIGNED = [case for case in CASES if retractable(case[0])]


@pytest.mark.parametrize(("aggregate", "types"), SIGNED, ids=[IDS[CASES.index(case)] for case in SIGNED])
@RANDOM
@given(st.data())
def test_the_retractable_form_is_a_commutative_group(aggregate: Aggregate, types: Types, data: st.DataObject) -> None:
    signed = aggregate.retractable()
    assert signed.retractable() == signed
    _check_laws(signed, types, data)
    rows = data.draw(st.lists(rows_of(types), max_size=4))
    extra = data.draw(st.lists(rows_of(types), max_size=4))
    kept = total(signed, [signed.lift(*row) for row in rows])
    taken = total(signed, [signed.lift(*row) for row in extra])
    back = total(signed, [signed.inverse(signed.lift(*row)) for row in reversed(extra)])
    assert signed.merge(taken, back) == signed.zero()
    assert signed.merge(signed.merge(back, kept), taken) == kept


def answer(aggregate: Aggregate, *rows: Any) -> Any:
    """The answer for rows of one value each (or a tuple), at time and offset 0, 1, 2, …"""
    lifted = (row if isinstance(row, tuple) else (row,) for row in rows)
    partials = [aggregate.lift(values, Origin(i, 0, i)) for i, values in enumerate(lifted)]
    return aggregate.present(total(aggregate, partials))


def test_sums_overflow_to_null_whatever_the_order() -> None:
    big = 2**63 - 1
    assert answer(ps.sum("x"), big, 1) is None
    assert answer(ps.sum("x"), big, 1, -1) == big
    assert answer(ps.sum("x"), Decimal("9" * 38), Decimal(1)) is None


def test_float_sums_do_not_depend_on_the_order() -> None:
    assert answer(ps.sum("x"), 1e20, 0.1, -1e20) == 0.1
    assert answer(ps.sum("x"), 1e308, 1e308) == inf
    assert math.isnan(answer(ps.sum("x"), inf, -inf))


def test_empty_input_answers_as_spark_does() -> None:
    for null in (ps.sum("x"), ps.avg("x"), ps.min("x"), ps.variance("x"), ps.first("x"), ps.quantile("x", 0.5)):
        assert answer(null) is None
    for empty in (ps.collect_list("x"), ps.collect_set("x"), ps.top(2, "x"), ps.heavy_hitters("x")):
        assert answer(empty) == []
    for zero in (ps.count(), ps.count("x"), ps.count_distinct("x"), ps.approx_distinct("x"), ps.second_moment("x")):
        assert answer(zero) == 0


def test_decimals_average_to_four_more_places_half_away_from_zero() -> None:
    assert str(answer(ps.avg("x"), Decimal("1.25"), Decimal("1.26"), Decimal("1.00"))) == "1.170000"
    assert str(answer(ps.avg("x"), Decimal("-0.01"), Decimal("0.00"), Decimal("0.00"))) == "-0.003333"


def test_first_and_last_count_nulls_and_break_ties_by_position() -> None:
    first, last = ps.first("x"), ps.last("x")
    rows = [first.lift((value,), Origin(*at)) for value, at in (("b", (1, 0, 1)), (None, (1, 0, 0)), ("c", (2, 0, 0)))]
    assert first.present(total(first, rows)) is None
    assert last.present(total(last, rows)) == "c"


def test_max_by_and_top_break_ties_by_the_earliest_position() -> None:
    rows = (("a", 1), ("b", 2), ("c", 2), ("d", None))
    assert answer(ps.max_by("x", "y"), *rows) == "b"
    assert answer(ps.top(2, "y", value="x"), *((y, x) for x, y in rows)) == ["b", "c"]


def test_a_retracted_row_matches_by_value_not_by_position() -> None:
    top = ps.top(2, "x").retractable()
    rows = [top.lift((value,), Origin(0, 0, offset)) for offset, value in enumerate((5, 5, 3, 1))]
    rows.append(top.inverse(top.lift((5,), Origin(0, 7, 99))))
    assert top.present(total(top, rows)) == [5, 3]


def test_a_retraction_that_comes_first_waits_for_its_row() -> None:
    largest = ps.max("x").retractable()
    early = largest.inverse(largest.lift((9,), Origin(0, 0, 0)))
    assert largest.present(early) is None
    assert largest.present(largest.merge(early, largest.lift((9,), Origin(0, 0, 1)))) is None


@pytest.mark.parametrize("seed", range(5))
def test_approx_distinct_does_not_depend_on_order_or_cut(seed: int) -> None:
    aggregate, order = ps.approx_distinct("x"), list(range(3000))
    random.Random(seed).shuffle(order)
    cut = [aggregate.digest((value, 1) for value in order[i :: seed + 1]) for i in range(seed + 1)]
    assert aggregate.present(aggregate.union(cut)) == 3002


def test_sketches_keep_within_their_tolerance() -> None:
    n = 50_000
    assert (
        abs(ps.approx_distinct("x").present(ps.approx_distinct("x").digest((i, 1) for i in range(n))) / n - 1) < 0.049
    )
    median = ps.quantile("x", [0.1, 0.5, 0.9])
    found = median.present(median.digest((i * 7919 % n, 1) for i in range(n)))
    assert all(abs(value / n - q) < 0.0133 * 2 for value, q in zip(found, (0.1, 0.5, 0.9), strict=True))  # type: ignore[arg-type]
    hitters = ps.heavy_hitters("x", limit=2, size=64)
    often = hitters.present(hitters.digest([("a", 4000), ("b", 2000), *((f"{i}", 1) for i in range(3000))]))
    assert [each["item"] for each in often] == ["a", "b"]
    assert abs(often[0]["estimate"] - 4000) <= 9000 * 3.5 / 64
    skew = ps.second_moment("x")
    counts = {f"user {i}": 1 + 2000 // (i + 1) for i in range(500)}
    cells = skew.zero()
    for user, times in counts.items():
        pulled = {cell: way * times for cell, way in skew.lift((user,), Origin(0, 0, 0)).items()}
        cells = skew.merge(cells, pulled)
    exact = sum(times * times for times in counts.values())
    assert abs(skew.present(cells) / exact - 1) < 0.18


@given(st.sampled_from(SCALARS).flatmap(lambda kind: st.tuples(values_of(kind), values_of(kind), values_of(kind))))
def test_the_order_is_total_and_keys_give_their_values_back(values: tuple[Any, Any, Any]) -> None:
    a, b, c = map(key, values)
    assert (a < b) + (a == b) + (a > b) == 1
    assert not (a <= b <= c) or a <= c
    assert alike([value_of(a)], [canonical(values[0])])
    assert key(value_of(a)) == a


def test_arrays_and_structs_have_an_order() -> None:
    arrays = [[1], [], [None], [1, 0], [nan], None]
    assert repr(sorted(arrays, key=key)) == repr([None, [], [None], [1], [1, 0], [nan]])
    assert value_of(key({"item": -0.0, "estimate": 2})) == {"item": 0.0, "estimate": 2}
