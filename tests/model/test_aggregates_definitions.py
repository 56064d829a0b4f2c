"""How aggregates are written, shown, compared and refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import penstock.model.aggregates as ps
from penstock.errors import DefinitionError
from penstock.model.aggregates import Aggregate

WRITTEN = [
    "ps.count()",
    "ps.count('x')",
    "ps.count(where='price > 10')",
    "ps.sum('price * 2', where=\"country = 'CH'\")",
    "ps.top(3, 'score', value='player')",
    "ps.collect_list('x', order='position')",
    "ps.max_by('x', 'y')",
    "ps.quantile('x', 0.5, k=400)",
    "ps.quantile('x', [0.5, 0.99])",
    "ps.approx_distinct('x', lg_k=14)",
    "ps.heavy_hitters('x', limit=3, size=256)",
    "ps.second_moment('x', width=64, where='ok')",
    "ps.monoid('longest', 'x', lift=len, merge=max, zero=0, result_type='int', where='ok')",
    "ps.max('x').retractable()",
]


@pytest.mark.parametrize("text", WRITTEN)
def test_a_definition_prints_as_it_is_written_and_compares_by_value(text: str) -> None:
    one, other = (eval(text, {"ps": ps, "len": len, "max": max}) for _ in range(2))
    assert repr(one) == text
    assert one == other
    assert hash(one) == hash(other)
    assert one.describe() == other.describe()


def test_definitions_that_differ_are_not_equal() -> None:
    assert ps.sum("x") != ps.avg("x")
    assert ps.sum("x") != ps.sum("x", where="ok")
    assert ps.variance("x") != ps.var_pop("x")
    one = ps.monoid("m", "x", lift=len, merge=max, zero=0)
    assert one != ps.monoid("m", "x", lift=len, merge=min, zero=0)


def refused(make: Callable[[], Any]) -> str:
    with pytest.raises(DefinitionError) as refusal:
        make()
    return str(refusal.value)


REFUSED: list[tuple[Callable[[], Any], str]] = [
    (
        lambda: ps.sum("name").result_type(("string",)),
        "ps.sum('name') cannot take a string\n  detail: sum takes numbers\n"
        "  hint: cast it, for example: cast(name AS double)",
    ),
    (
        lambda: ps.max("tags").result_type(("array<int>",)),
        "ps.max('tags') cannot take an array<int>\n"
        "  detail: max takes numbers, text, binary, booleans, dates and timestamps",
    ),
    (
        lambda: ps.sum(5),  # type: ignore[arg-type]
        'ps.sum takes SQL text, and got 5\n  hint: write an expression over the columns, for example "price * 2"',
    ),
    (
        lambda: ps.top(0, "x"),
        'ps.top needs a number of rows of at least 1, and got 0\n  hint: write for example ps.top(3, "score")',
    ),
    (lambda: ps.quantile("x", 50), "a quantile must be from 0 to 1, and is 50\n  hint: the median is 0.5"),
    (
        lambda: ps.collect_list("x", order="size"),
        "unknown order 'size' of ps.collect_list\n  detail: there are: time, position",
    ),
    (
        lambda: ps.approx_distinct("user").retractable(),
        "approx_distinct cannot take retractions: use count_distinct\n  detail: in ps.approx_distinct('user')",
    ),
    (
        lambda: ps.heavy_hitters("x").retractable(),
        "heavy_hitters cannot take retractions: use a view grouped by the value with ps.count()\n"
        "  detail: in ps.heavy_hitters('x')",
    ),
    (
        lambda: ps.monoid("m", "x", lift=len, merge=max, zero=0).retractable(),
        "the monoid 'm' cannot take retractions: it has no inverse\n"
        "  hint: give inverse=, a function with merge(p, inverse(p)) == zero",
    ),
    (
        lambda: ps.max("x").inverse(None),
        "max has no inverse\n  hint: the form that takes retractions has one: see retractable()",
    ),
]


@pytest.mark.parametrize(("make", "message"), REFUSED, ids=[message.splitlines()[0] for _, message in REFUSED])
def test_a_refusal_says_what_is_wrong_and_what_to_do(make: Callable[[], Any], message: str) -> None:
    assert refused(make) == message


def own(**parts: Any) -> Aggregate:
    given: dict[str, Any] = {"lift": lambda x: x, "merge": lambda a, b: a + b, "zero": 0, "samples": [1, 2, 5]} | parts
    return ps.monoid("own", "x", **given)


BROKEN: list[tuple[dict[str, Any], str]] = [
    (
        {"merge": lambda a, b: a - b, "zero": 0},
        "the zero of the monoid 'own' is not neutral\n  detail: zero = 0, p = 1, merge(zero, p) =",
    ),
    ({"zero": 1}, "the zero of the monoid 'own' is not neutral\n  detail: zero = 1, p = 1, merge(zero, p) = 2"),
    (
        {"lift": str, "zero": ""},
        "the monoid 'own' is not commutative\n  detail: a = '1', b = '2', merge(a, b) = '12', merge(b, a) = '21'",
    ),
    (
        {"merge": lambda a, b: a or b if not (a and b) else abs(a - b), "zero": 0},
        "the monoid 'own' is not associative\n  detail: a = 1, b = 1, c = 2, merge(merge(a, b), c) = 2",
    ),
    (
        {"lift": lambda x: (x, 1), "merge": lambda a, b: (a[0] + b[0], a[1] + b[1]), "zero": (0, 0)},
        "a partial of the monoid 'own' does not survive storing\n  detail: p = (1, 1), encode(p) = '[1, 1]', "
        "decode(encode(p)) = [1, 1]\n  hint: JSON turns tuples into lists and keys into text: use lists, or give",
    ),
    (
        {"lift": lambda x: {x}, "merge": lambda a, b: a | b, "zero": set()},
        "a partial of the monoid 'own' cannot be stored: {1}",
    ),
    ({"inverse": lambda p: p}, "the inverse of the monoid 'own' does not take a partial back\n  detail: p = 1"),
    ({"lift": lambda x: x.y}, "lift of the monoid 'own' fails on (1,): AttributeError"),
    (
        {"lift": lambda x: [x], "merge": lambda a, b: a.extend(b) or a, "zero": []},
        "merge of the monoid 'own' changes its arguments\n  detail: before: [] and [1]; after: [1] and [1]",
    ),
    ({"encode": str}, "the monoid 'own' needs both encode and decode, or neither"),
]


@pytest.mark.parametrize(("parts", "message"), BROKEN, ids=[message.splitlines()[0] for _, message in BROKEN])
def test_a_monoid_that_breaks_a_law_is_refused_with_the_counter_example(parts: dict[str, Any], message: str) -> None:
    assert refused(lambda: own(**parts)).startswith(message)


def test_a_monoid_without_samples_is_checked_on_values_of_its_inputs_types() -> None:
    joined = ps.monoid("joined", "x", lift=str, merge=lambda a, b: a + b, zero="")
    assert "not commutative" in refused(lambda: joined.check(("string",)))
    total = ps.monoid("total", "x", "y", lift=lambda x, y: x * y, merge=lambda a, b: a + b, zero=0.0)
    total.check(("double", "int"))


def test_a_monoid_of_one_time_only_functions_changes_its_fingerprint_with_its_code() -> None:
    one = ps.monoid("m", "x", lift=lambda x: x + 1, merge=max, zero=0)
    other = ps.monoid("m", "x", lift=lambda x: x + 2, merge=max, zero=0)
    assert one.describe() != other.describe()


def test_an_approximate_aggregate_says_how_far_it_may_be_off() -> None:
    sketches = (ps.approx_distinct("x"), ps.quantile("x", 0.5), ps.heavy_hitters("x"), ps.second_moment("x"))
    assert [sketch.tolerance for sketch in sketches] == [
        "within ±4.88% of the exact number in 99 of 100 cases (standard error 1.62%)",
        "its rank is within ±1.33% of q in 99 of 100 cases; exact up to 200 values",
        "an estimate is at most 0.34% of all rows off; exact below 768 values",
        "within ±17.7% of the exact moment in 99 of 100 cases (a row's standard error 8.8%)",
    ]
    assert not any(sketch.exact for sketch in sketches)
    assert ps.sum("x").tolerance is None
