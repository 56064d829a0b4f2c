"""Expressions as Python objects: their SQL, their meaning, and where they go."""

from __future__ import annotations

import operator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import penstock as ps
from penstock.model.expressions import bind, evaluate
from penstock.model.types import Schema

SCHEMA = Schema.parse(
    "a int, b int, name string, at timestamp, day date, tags array<string>, counts map<string,int>, `order` int, "
    "rate double, price decimal(10,2), ok boolean"
)
ROW = {
    "a": 6, "b": None, "name": "it's", "at": 0, "day": 0, "tags": ["x"], "counts": {"k": 1}, "order": 3, "rate": 1.5,
    "price": Decimal("1.50"), "ok": True,
}  # fmt: skip


def value(expression: ps.Expression) -> Any:
    bound = bind(str(expression), SCHEMA)
    assert bound.outside is None, bound.outside
    return evaluate(bound, ROW)


@pytest.mark.parametrize(
    ("expression", "sql", "expected"),
    [
        (ps.col("a") * 2 > 10, "a * 2 > 10", True),
        (-(ps.col("a") + 1) * 2, "-(a + 1) * 2", -14),
        (1 - (ps.col("a") - 2), "1 - (a - 2)", -3),
        (ps.lit(-5) - ps.col("a"), "-5 - a", -11),
        (12 / ps.col("a"), "12 / a", 2.0),
        (20 % ps.col("a"), "20 % a", 2),
        (~(ps.col("a") > 3) | (ps.col("a") == 6) & ps.col("ok"), "NOT a > 3 OR a = 6 AND ok", True),
        (~((ps.col("a") > 3) | (ps.col("a") == 1)), "NOT (a > 3 OR a = 1)", False),
        ((ps.col("a") > 3) == True, "(a > 3) = TRUE", True),  # noqa: E712
        (ps.col("b").is_null(), "b IS NULL", True),
        ((ps.col("a") + 1).is_not_null(), "a + 1 IS NOT NULL", True),
        (ps.col("b").same_as(None), "b <=> NULL", True),
        (ps.col("a").is_in(1, 6), "a IN (1, 6)", True),
        (ps.col("a").between(1, ps.col("order") + 1), "a BETWEEN 1 AND order + 1", False),
        (ps.col("name") == "it's", r"name = 'it\'s'", True),
        (ps.col("name").like("it%"), "name LIKE 'it%'", True),
        (ps.col("name").rlike("^i.'"), r"name RLIKE '^i.\''", True),
        (ps.col("name").contains("t'"), r"contains(name, 't\'')", True),
        (ps.col("name").startswith("it"), "startswith(name, 'it')", True),
        (ps.col("name").endswith("x"), "endswith(name, 'x')", False),
        (ps.col("at") < datetime(2020, 1, 1), "at < TIMESTAMP '2020-01-01T00:00:00Z'", True),
        (ps.col("at") + timedelta(minutes=90) > datetime(1970, 1, 1, 1, tzinfo=UTC),
         "at + INTERVAL '5400' SECOND > TIMESTAMP '1970-01-01T01:00:00Z'", True),
        (ps.col("day") == date(1970, 1, 1), "day = DATE '1970-01-01'", True),
        (ps.col("rate") > 1.4, "rate > 1.4D", True),
        (ps.col("price") == Decimal("1.50"), "price = 1.50", True),
        (ps.col("price") < Decimal(2), "price < CAST(2 AS decimal(1,0))", True),
        (ps.col("tags")[0], "tags[0]", "x"),
        (ps.col("counts")["k"] + 1, "counts['k'] + 1", 2),
        (ps.col("a").cast("LONG"), "CAST(a AS bigint)", 6),
        (ps.fn.upper(ps.col("name")), "upper(name)", "IT'S"),
        (ps.fn.coalesce(ps.col("b"), 7), "coalesce(b, 7)", 7),
        (ps.expr("a > 3 OR a < 1") & True, "(a > 3 OR a < 1) AND TRUE", True),
        (ps.when(ps.col("a") > 9, "many").when("a > 5", "some").otherwise("few"),
         "CASE WHEN a > 9 THEN 'many' WHEN a > 5 THEN 'some' ELSE 'few' END", "some"),
    ],
)  # fmt: skip
def test_an_expression_prints_as_sql_with_the_same_meaning(expression: ps.Expression, sql: str, expected: object):
    assert str(expression) == sql
    assert value(expression) == expected


@given(st.one_of(
    st.integers(-(1 << 63), (1 << 63) - 1), st.text(alphabet=st.characters(exclude_categories=["Cs"])), st.booleans(),
    st.floats(allow_nan=False), st.binary(), st.dates(date(1, 1, 1)), st.decimals(-(10**9), 10**9, places=3),
    st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31)),
))  # fmt: skip
def test_a_literal_is_the_value_that_it_was_made_of(constant: Any):
    answer = value(ps.lit(constant))
    if isinstance(constant, datetime):
        answer = datetime(1970, 1, 1) + timedelta(microseconds=answer)
    elif isinstance(constant, date):
        answer = date(1970, 1, 1) + timedelta(days=answer)
    assert answer == constant
    assert not isinstance(constant, bool) or answer is constant


_OPERATORS = (operator.add, operator.sub, operator.mul, operator.lt, operator.ge)
_LOGIC = (operator.and_, operator.or_)


@given(st.data())
def test_brackets_stand_where_the_tree_needs_them(data: st.DataObject):
    """A random tree of operators has the value that Python computes by the same tree."""

    def number(depth: int) -> tuple[Any, Any]:
        if depth == 0 or data.draw(st.booleans()):
            constant = data.draw(st.integers(-9, 9))
            return (ps.col("a"), 6) if constant == 6 else (ps.lit(constant), constant)
        sign = data.draw(st.sampled_from(("-", "")))
        do = data.draw(st.sampled_from(_OPERATORS[:3]))
        (left, x), (right, y) = number(depth - 1), number(depth - 1)
        made, result = do(left, right), do(x, y)
        return (-made, -result) if sign else (made, result)

    def truth(depth: int) -> tuple[Any, bool]:
        if depth == 0 or data.draw(st.booleans()):
            (left, x), (right, y) = number(depth), number(depth)
            do = data.draw(st.sampled_from(_OPERATORS[3:]))
            return do(left, right), do(x, y)
        (left, p), (right, q) = truth(depth - 1), truth(depth - 1)
        if data.draw(st.booleans()):
            return ~left, not p
        do = data.draw(st.sampled_from(_LOGIC))
        return do(left, right), do(p, q)

    expression, expected = truth(3)
    assert value(expression) is expected


def test_definitions_take_expressions_wherever_they_take_sql():
    orders = ps.stream(
        "orders", schema="item string, price int, at timestamp, other timestamp, tags array<string>",
        event_time=ps.col("at"), watermark=ps.bounded("1 second"), id=ps.col("item"),
    )  # fmt: skip
    by_object = (
        orders.where(orders["price"] > 1)
        .with_time(ps.col("other"))
        .select("item", (ps.col("price") * 2).alias("twice"), half=ps.col("price") / 2)
        .group_by(ps.col("item"), ps.fn.upper(ps.col("item")).alias("big"))
        .agg(total=ps.sum(ps.col("twice"), where=ps.col("half") > 1.5), n=ps.count())
        .having(ps.col("n") > 1)
        .select("n", mean=ps.col("total") / ps.col("n"))
    )
    by_text = (
        orders.where("price > 1")
        .with_time("other")
        .select("item", "price * 2 AS twice", half="price / 2")
        .group_by("item", "upper(item) AS big")
        .agg(total=ps.sum("twice", where="half > 1.5D"), n=ps.count())
        .having("n > 1")
        .select("n", mean="total / n")
    )
    assert by_object == by_text
    assert orders.explode(ps.col("tags").alias("tag")) == orders.explode("tags AS tag")


def test_a_column_of_a_stream_must_exist():
    orders = ps.stream("orders", schema="item string, Price int")
    assert str(orders["price"]) == "Price"
    assert orders._ipython_key_completions_() == ["item", "Price"]
    with pytest.raises(ps.DefinitionError, match="did you mean 'Price'"):
        orders["prise"]
    with pytest.raises(ps.DefinitionError, match="cannot be indexed or iterated"):
        list(orders)  # type: ignore[call-overload]


@pytest.mark.parametrize("use", [bool, list, lambda x: 1 < x < 3, lambda x: x and x, lambda x: "a" in x])
def test_uses_that_need_a_value_are_errors_that_say_what_to_write(use: Any):
    with pytest.raises(ps.DefinitionError, match=r"write & for and|x\[0\]"):
        use(ps.col("a"))


def test_what_has_no_literal_is_an_error():
    with pytest.raises(ps.DefinitionError, match="has no literal in SQL"):
        ps.col("a") == {"a": 1}  # noqa: B015
    with pytest.raises(ps.DefinitionError, match="is_in without values"):
        ps.col("a").is_in()


def test_an_expression_repeats_as_its_constructor_and_functions_can_be_completed():
    condition = ps.col("a") + 1 > 2
    assert repr(condition) == "ps.expr('a + 1 > 2')"
    assert str(eval(repr(condition), {"ps": ps})) == str(condition)
    assert {"upper", "coalesce", "date_trunc"} <= set(dir(ps.fn))


def test_the_package_lists_what_it_exports():
    assert dir(ps) == sorted(ps.__all__)
    assert all(hasattr(ps, name) for name in ps.__all__)


@pytest.mark.parametrize("duration", [10, 1.5, True, None])
def test_a_duration_without_a_unit_is_an_error(duration: Any):
    for use in (ps.fixed, ps.session, ps.every, ps.bounded):
        with pytest.raises(ps.DefinitionError, match="not a duration"):
            use(duration)
    assert ps.fixed(timedelta(seconds=10)) == ps.fixed("10 seconds")
