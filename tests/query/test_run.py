"""The engine runs plans within its limits, reaches nothing outside of itself, and explains what went wrong."""

from __future__ import annotations

import math
from decimal import Decimal

import pyarrow as pa
import pytest

from penstock.model.types import Schema
from penstock.query.errors import QueryError, TooLarge, TooSlow
from penstock.query.limits import Limits
from penstock.query.plan import Plan, Scan
from penstock.query.run import Engine

ROWS = pa.table(
    {"k": ["a", "b", None], "price": pa.array([Decimal("9.50"), Decimal("1000.00"), None], pa.decimal128(10, 2))}
)
SCAN = Scan("v", "s", ("k", "price"), ())


@pytest.fixture(scope="module")
def engine() -> Engine:
    return Engine(Limits(memory=128 << 20, seconds=30))


def ask(engine: Engine, sql: str, schema: str = "x bigint", limits: Limits | None = None) -> list[tuple[object, ...]]:
    plan = Plan(sql, (), (SCAN,) if " s" in sql else (), Schema.parse(schema))
    answer = engine.run(plan, lambda scan: ROWS.select(list(scan.columns)), limits)
    return [tuple(row.values()) for row in answer.table.to_pylist()]


def test_an_answer_has_the_types_of_the_plan(engine: Engine) -> None:
    assert ask(engine, "SELECT max(price) FROM s", "m decimal(10,2)") == [(Decimal("1000.00"),)]
    assert ask(engine, "SELECT sum(n) FROM (VALUES (1), (2)) t(n)", "n bigint") == [(3,)]


def test_parameters_are_bound(engine: Engine) -> None:
    plan = Plan("SELECT k FROM s WHERE k = $1", ("b",), (SCAN,), Schema.parse("k string"))
    assert engine.run(plan, lambda scan: ROWS).table.to_pylist() == [{"k": "b"}]


def test_a_relation_that_is_read_twice_has_its_rows_twice(engine: Engine) -> None:
    def rows(scan: Scan) -> pa.RecordBatchReader:
        return pa.RecordBatchReader.from_batches(ROWS.schema, iter(ROWS.to_batches()))

    sql = "WITH t AS NOT MATERIALIZED (SELECT * FROM s) SELECT count(*) AS n FROM t, t AS u"
    plan = Plan(sql, (), (SCAN,), Schema.parse("n bigint"))
    assert engine.run(plan, rows).table.to_pylist() == [{"n": 9}]


def test_nulls_come_first_as_in_spark(engine: Engine) -> None:
    assert ask(engine, "SELECT k FROM s ORDER BY k", "k string") == [(None,), ("a",), ("b",)]


def test_an_answer_stops_at_the_rows_that_are_wanted(engine: Engine) -> None:
    plan = Plan("SELECT range FROM range(100000000)", (), (), Schema.parse("n bigint"))
    answer = engine.run(plan, lambda scan: ROWS, Limits(rows=5, seconds=30))
    assert (answer.table.num_rows, answer.more) == (5, True)
    answer = engine.run(Plan("SELECT range FROM range(5)", (), (), plan.schema), lambda scan: ROWS, Limits(rows=5))
    assert (answer.table.num_rows, answer.more) == (5, False)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM read_csv('/etc/passwd')", "SELECT * FROM glob('/*')", "COPY (SELECT 1) TO '/tmp/x.csv'",
        "ATTACH '/tmp/x.db'", "INSTALL httpfs", "LOAD httpfs", "SET memory_limit = '10GB'",
        "SET enable_external_access = true", "SELECT * FROM 'https://example.org/x.csv'", "SELECT * FROM ROWS",
    ],
)  # fmt: skip
def test_nothing_outside_can_be_reached(engine: Engine, sql: str) -> None:
    with pytest.raises(QueryError):
        ask(engine, sql, "x string")


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT 1 % 0", "division by zero"),
        ("SELECT CAST('abc' AS INT)", "cannot cast 'abc' to int"),
        ("SELECT 2147483647::INT + 1::INT", "overflow in addition of int: 2147483647 + 1"),
        ("SELECT CAST(1000 AS TINYINT)", "overflow: 1000 is out of the range of tinyint"),
        ("SELECT CAST('12345.6' AS DECIMAL(4,1))", "cannot cast '12345.6' to decimal(4,1)"),
        ("SELECT CAST(12345.6 AS DECIMAL(4,1))", "overflow: 12345.6 is out of the range of decimal(4,1)"),
        ("SELECT CAST('x' AS TIMESTAMP)", "cannot cast 'x' to timestamp"),
        ("SELECT (SELECT range FROM range(3))", "a subquery that is used as a value gives more than one row"),
        ("SELECT error('our own words')", "the query failed: our own words"),
    ],
)
def test_errors_are_short_and_without_internals(engine: Engine, sql: str, message: str) -> None:
    with pytest.raises(QueryError) as caught:
        ask(engine, sql)
    assert caught.value.message == message
    assert "LINE 1" not in str(caught.value)


def test_an_answer_that_does_not_fit_its_type_is_an_overflow(engine: Engine) -> None:
    with pytest.raises(QueryError, match="overflow"):
        ask(engine, "SELECT 9223372036854775807::HUGEINT + 1", "n bigint")


def test_a_question_is_stopped_when_its_time_is_over(engine: Engine) -> None:
    endless = "SELECT count(*) FROM range(1000000) a, range(1000000) b WHERE a.range + b.range = 7"
    with pytest.raises(TooSlow, match=r"longer than 0\.2 s"):
        ask(engine, endless, limits=Limits(seconds=0.2))
    assert ask(engine, "SELECT 1") == [(1,)]


def test_a_question_that_needs_too_much_memory_is_refused(engine: Engine) -> None:
    with pytest.raises(TooLarge, match="128 MB of memory"):
        ask(engine, "SELECT len(list(range)) FROM range(100000000)")
    assert ask(engine, "SELECT 1") == [(1,)]


def test_an_answer_that_is_too_large_is_refused(engine: Engine) -> None:
    with pytest.raises(TooLarge, match="larger than 1000 bytes"):
        ask(engine, "SELECT range FROM range(10000)", limits=Limits(size=1000))


def test_what_breaks_a_scan_is_what_is_reported(engine: Engine) -> None:
    def rows(scan: Scan) -> pa.RecordBatchReader:
        def batches():
            yield ROWS.to_batches()[0]
            raise QueryError("the store is gone")

        return pa.RecordBatchReader.from_batches(ROWS.schema, batches())

    with pytest.raises(QueryError, match="the store is gone"):
        engine.run(Plan("SELECT count(k) AS n FROM s", (), (SCAN,), Schema.parse("n bigint")), rows)


def test_floats_keep_nan_and_the_sign_of_zero(engine: Engine) -> None:
    floats = pa.table({"k": [math.nan, -0.0]})
    plan = Plan("SELECT k FROM s", (), (Scan("v", "s", ("k",), ()),), Schema.parse("k double"))
    nan, zero = engine.run(plan, lambda scan: floats).table["k"].to_pylist()
    assert math.isnan(nan)
    assert math.copysign(1, zero) == -1
