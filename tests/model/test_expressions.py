"""Reading and binding expressions: what is refused, what it is called, what is outside. The values are compared with
Spark in tests/conformance."""

from __future__ import annotations

import pytest

from penstock.errors import DefinitionError, RowError
from penstock.model.expressions import bind, evaluate, parse
from penstock.model.types import Schema

SCHEMA = Schema.parse(
    "id string, Price double, quantity int, at timestamp, day date, tags array<string>, who struct<name:string>"
)


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("price>1.5", "price > 1.5"),
        ("  Upper( `id` ) ='x'  ", "UPPER(id) = 'x'"),
        ("`a b`+`c`", "`a b` + c"),
        ("a  -- a comment", "a"),
        ("case when a then 1 end", "CASE WHEN a THEN 1 END"),
        ("a::int", "CAST(a AS INT)"),
        ("'it''s'", r"'it\'s'"),
        ("at - interval 1 day 2 hours", "at - (INTERVAL '1' DAY + INTERVAL '2' HOURS)"),
        ("-128Y", "CAST(-128 AS TINYINT)"),
        ("a = b is null", "(a = b) IS NULL"),
        ("a || b + c", "a || b + c"),
        ("nvl(a, b)", "NVL(a, b)"),
        ("`timestamp` > 1", "`timestamp` > 1"),
        ("timestamp > 1", "`timestamp` > 1"),
        ("filter(tags, x -> x > 'a')", "FILTER(tags, x -> x > 'a')"),
    ],
)
def test_each_expression_has_one_canonical_text(text: str, canonical: str) -> None:
    assert parse(text).text == canonical
    assert parse(canonical) == parse(text)


def test_the_columns_are_named_as_written() -> None:
    assert parse("Price * Quantity + who.name").columns == {"Price", "Quantity", "who"}
    assert parse("filter(tags, x -> x > 'a')").columns == {"tags"}
    assert parse("date_diff(DAY, day, at)").columns == {"day", "at"}


@pytest.mark.parametrize("text", ["a +", "a,b", "'open", "f(a", "case when a then 1", "a b", "a ]", "1 1"])
def test_bad_syntax_is_shown_with_a_caret(text: str) -> None:
    with pytest.raises(DefinitionError, match="cannot read the expression") as caught:
        parse(text)
    assert text in str(caught.value)
    assert "^" in str(caught.value)
    assert caught.value.hint


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("sum(price)", "the aggregate sum"),
        ("1 + max(price)", "the aggregate max"),
        ("count(*)", "the aggregate count"),
        ("row_number()", "the window function row_number"),
        ("sum(price) over (order by at)", "a window function"),
        ("(select 1)", "a subquery"),
        ("a in (select 1)", "a subquery"),
        ("exists(select 1)", "a subquery"),
        ("explode(tags)", "the generator explode"),
        ("drop table posts", "a statement"),
        ("a = :limit", "the parameter"),
        ("a; b", "several statements"),
        ("", "an empty expression"),
        ("*", "'\\*'"),
    ],
)
def test_what_is_no_expression_of_one_row_is_refused(text: str, what: str) -> None:
    with pytest.raises(DefinitionError, match=what):
        parse(text)


def test_columns_are_found_without_regard_to_case_and_take_their_declared_spelling() -> None:
    bound = bind("PRICE * Quantity", SCHEMA)
    assert bound.columns == {"Price", "quantity"}
    assert bound.text == "Price * quantity"
    assert bound.type == "double"
    assert evaluate(bound, {"Price": 1.5, "quantity": 4}) == 6.0


def test_an_unknown_column_says_what_there_is() -> None:
    with pytest.raises(DefinitionError, match="unknown column 'prise'") as caught:
        bind("prise > 1", SCHEMA)
    assert "did you mean 'Price'?" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "reason", "kind"),
    [
        ("soundex(id)", "the function soundex is outside the kernel", None),
        ("cast(soundex(id) as int)", "the function soundex is outside the kernel", "int"),
        ("soundex(id) = 'x'", "the function soundex is outside the kernel", "boolean"),
        ("who.street", "the field 'street' of struct<name:string> is outside the kernel", None),
        ("tags['a']", "an index of string is outside the kernel", None),
        ("split(id, ' *')", "split by ' *', which may match nothing, is outside the kernel", None),
        ("filter(tags, x -> x > 'a')", "the function filter is outside the kernel", None),
        ("id rlike '(?i)a'", "the regular expression '(?i)a' is outside the kernel", "boolean"),
        ("id rlike '\\\\bword'", "the regular expression '\\bword' is outside the kernel", "boolean"),
        ("id like id", "LIKE with a pattern that is not a constant is outside the kernel", "boolean"),
        (
            "id like 'a\\\\b'",
            "the pattern 'a\\b' has an escape before no wildcard, and is outside the kernel",
            "boolean",
        ),
        ("price % 2", "remainder of floats is outside the kernel", None),
        ("cast(price as string)", "a cast from double to string is outside the kernel", "string"),
        ("cast(id as timestamp)", "a cast from string to timestamp is outside the kernel", "timestamp"),
        ("at + interval 1 month", "the interval '1 MONTH' is outside the kernel", None),
        ("at - at", "subtract of timestamp and timestamp is outside the kernel", None),
        ("quantity / 1.5", "division of decimals is outside the kernel", None),
        ("timestamp 'now'", "the moving timestamp 'now' is outside the kernel", "timestamp"),
        ("null", "a column of type void is outside the kernel", None),
        ("current_timestamp()", "the function current_timestamp is outside the kernel", None),
        ("nvl(id)", "nvl of 1 arguments is outside the kernel", None),
        ("at = quantity", "comparison of int and timestamp is outside the kernel", "boolean"),
    ],
)
def test_what_is_outside_the_kernel_says_why(text: str, reason: str, kind: str | None) -> None:
    bound = bind(text, SCHEMA)
    assert (bound.outside, bound.type, bound.tree) == (reason, kind, None)
    with pytest.raises(DefinitionError, match="cannot be evaluated without Spark"):
        evaluate(bound, {})


def test_a_failure_is_an_error_of_the_row_with_a_short_reason() -> None:
    row = {"quantity": 2**31 - 1, "id": "x"}
    for text, reason in [
        ("quantity + 1", "overflow of int"),
        ("quantity / 0", "division by zero"),
        ("cast(id as int)", "cast of string to int fails"),
        ("cast(quantity as tinyint)", "cast of int to tinyint overflows"),
    ]:
        with pytest.raises(RowError, match=reason):
            evaluate(bind(text, SCHEMA), row)


@pytest.mark.parametrize(
    "text",
    [
        "case when quantity = 0 then 0 else 1 div quantity end",
        "if(quantity <> 0, 1 div quantity, 0)",
        "quantity <> 0 and 1 div quantity > 0",
        "quantity = 0 or 1 div quantity > 0",
        "coalesce(quantity, 1 div quantity)",
        "nvl2(quantity, 0, 1 div quantity)",
        "try_divide(1, quantity)",
        "cast(null as int) + 1 div quantity",
        "quantity in (0, 1 div quantity)",
    ],
)
def test_a_failure_that_is_not_reached_is_none(text: str) -> None:
    evaluate(bind(text, SCHEMA), {"quantity": 0})
