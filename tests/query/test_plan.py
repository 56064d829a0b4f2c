"""What a plan reads: only the columns that are needed, with the filters that a store can apply."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import duckdb
import pytest

from penstock.query.plan import Filter, compile_query
from penstock.query.udfs import register
from tests.query.rows import SCHEMAS


def filters(where: str) -> tuple[Filter, ...]:
    return compile_query(f"SELECT id FROM items WHERE {where}", SCHEMAS).scans[0].filters


def test_a_scan_names_only_the_columns_that_are_used() -> None:
    (scan,) = compile_query("SELECT upper(name) AS n FROM items WHERE qty > 1 ORDER BY price", SCHEMAS).scans
    assert scan.columns == ("name", "qty", "price")


def test_counting_rows_needs_no_column() -> None:
    (scan,) = compile_query("SELECT count(*) FROM items", SCHEMAS).scans
    assert scan.columns == ()


def test_each_use_of_a_view_has_a_scan_of_its_own() -> None:
    plan = compile_query("SELECT a.id, b.qty FROM items a JOIN items b ON a.id = b.id WHERE b.name = 'x'", SCHEMAS)
    assert [scan.name for scan in plan.scans] == ["scan_1", "scan_2"]
    assert [scan.columns for scan in plan.scans] == [("id",), ("id", "name", "qty")]
    assert [scan.filters for scan in plan.scans] == [(), (Filter("name", "=", ("x",)),)]


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("name = 'x' AND qty >= 5", (Filter("name", "=", ("x",)), Filter("qty", ">=", (5,)))),
        ("5 > qty", (Filter("qty", "<", (5,)),)),
        ("price = 9.5", (Filter("price", "=", (Decimal("9.50"),)),)),
        ("ts >= '2024-05-01'", (Filter("ts", ">=", (datetime(2024, 5, 1, tzinfo=UTC),)),)),
        ("day < DATE '2024-05-01' - 7", (Filter("day", "<", (date(2024, 4, 24),)),)),
        ("name IN ('a', 'b')", (Filter("name", "in", ("a", "b")),)),
        ("name IS NULL", (Filter("name", "is null", ()),)),
        ("day BETWEEN '2024-01-01' AND '2024-02-01'",
         (Filter("day", ">=", (date(2024, 1, 1),)), Filter("day", "<=", (date(2024, 2, 1),)))),
        ("name = 'x' OR qty = 5", ()),
        ("upper(name) = 'X'", ()),
        ("NOT name = 'x'", ()),
        ("qty = 2.5", ()),
        ("qty = big", ()),
        ("score > 1.5D", ()),
        ("name > 'x'", ()),
    ],
)  # fmt: skip
def test_conditions_on_one_column_are_filters(where: str, expected: tuple[Filter, ...]) -> None:
    assert filters(where) == expected


def test_is_null_is_no_filter_below_a_join() -> None:
    question = "SELECT i.id FROM items i LEFT JOIN orders o ON i.id = o.item WHERE o.note IS NULL"
    assert [scan.filters for scan in compile_query(question, SCHEMAS).scans] == [(), ()]


def test_the_current_time_is_that_of_the_question() -> None:
    plan = compile_query("SELECT now() AS n, current_date AS d", SCHEMAS, now=86_400_000_000)
    assert plan.parameters == (86_400_000_000, 1)


def test_a_connection_may_have_only_the_functions_of_its_plan() -> None:
    plan = compile_query("SELECT upper('größe') AS u, TRY_CAST('x' AS INT) AS t", SCHEMAS)
    with duckdb.connect() as connection:
        register(connection, plan.sql)
        assert connection.execute(plan.sql, list(plan.parameters)).fetchall() == [("GRÖSSE", None)]
        names = connection.execute("SELECT function_name FROM duckdb_functions() WHERE function_name LIKE 'spark_%'")
        assert {name for (name,) in names.fetchall()} == {"spark_upper"}
