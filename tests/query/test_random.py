"""Random questions: the answer is Spark's, in types and values, or both engines fail."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import duckdb
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from penstock.errors import PenstockError
from tests.query.asking import ask, connect, same
from tests.query.record import shown, spark_answer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_COLUMNS = {
    "number": ["tiny", "small", "qty", "big", "price", "score", "id", "wide"],
    "text": ["name", "grp"],
    "time": ["ts", "day"],
    "boolean": ["ok"],
}
_CONSTANTS = {
    "number": ["0", "1", "-3", "2.5", "0.10", "1e2", "12", "NULL"],
    "text": ["'apple'", "''", "'a'", "'Größe'"],
    "time": ["TIMESTAMP '2024-05-01 12:00:00'", "DATE '2024-02-29'", "'2024-03-01'"],
    "boolean": ["TRUE", "FALSE", "NULL"],
}


def _leaf(kind: str) -> st.SearchStrategy[str]:
    return st.sampled_from([*_COLUMNS[kind], *_COLUMNS[kind], *_CONSTANTS[kind]])


@st.composite
def _value(draw: st.DrawFn, kind: str, depth: int) -> str:
    """An expression of a kind."""
    if depth == 0 or draw(st.integers(0, 3)) == 0:
        return draw(_leaf(kind))

    def part(other: str) -> str:
        return draw(_value(other, depth - 1))

    forms = {
        "number": [
            lambda: f"({part('number')} {draw(st.sampled_from('+-*/%'))} {part('number')})",
            lambda: f"abs({part('number')})", lambda: f"length({part('text')})", lambda: f"year({draw(_leaf('time'))})",
            lambda: f"coalesce({part('number')}, {part('number')})", lambda: f"greatest({part('number')}, id)",
            lambda: f"CASE WHEN {part('boolean')} THEN {part('number')} ELSE {part('number')} END",
            lambda: f"datediff({draw(_leaf('time'))}, day)", lambda: f"try_divide({draw(_leaf('number'))}, qty)",
            lambda: f"CAST({part('number')} AS {draw(st.sampled_from(['DOUBLE', 'DECIMAL(20,4)', 'BIGINT']))})",
        ],
        "text": [
            lambda: f"upper({part('text')})", lambda: f"concat({part('text')}, '-', {draw(_leaf('number'))})",
            lambda: f"substring({part('text')}, {draw(st.integers(-3, 3))}, {draw(st.integers(-1, 3))})",
            lambda: f"trim({part('text')})", lambda: f"nvl({part('text')}, 'none')",
            lambda: f"CAST({draw(st.sampled_from(['ts', 'day', 'price', 'ok', 'qty', 'wide']))} AS STRING)",
        ],
        "time": [
            lambda: f"date_trunc('{draw(st.sampled_from(['day', 'month', 'week', 'hour']))}', {draw(_leaf('time'))})",
            lambda: f"({draw(st.sampled_from(_COLUMNS['time']))} + INTERVAL {draw(st.integers(-5, 5))} "
            f"{draw(st.sampled_from(['DAYS', 'MONTHS', 'HOURS']))})",
            lambda: f"coalesce({draw(_leaf('time'))}, ts)",
        ],
        "boolean": [
            lambda: f"({part(side)} {draw(st.sampled_from(['=', '<', '>=', '<=>', '<>']))} {part(side)})"
            if (side := draw(st.sampled_from(["number", "text", "time"])))
            else "",
            lambda: f"({part('boolean')} {draw(st.sampled_from(['AND', 'OR']))} {part('boolean')})",
            lambda: f"(NOT {part('boolean')})", lambda: f"({part('number')} IS NULL)",
            lambda: f"({part('number')} IN (1, 2.5, {draw(_leaf('number'))}))",
            lambda: f"({part('number')} BETWEEN {draw(_leaf('number'))} AND {part('number')})",
            lambda: f"({part('text')} LIKE '{draw(st.sampled_from(['a%', '%p%', '_', '%']))}')",
        ],
    }  # fmt: skip
    return draw(st.sampled_from(forms[kind]))()


_KINDS = st.sampled_from(["number", "text", "time", "boolean"])


@st.composite
def questions(draw: st.DrawFn) -> str:
    """A SELECT, with or without groups."""
    where = f" WHERE {draw(_value('boolean', 2))}" if draw(st.booleans()) else ""
    if draw(st.integers(0, 2)):
        items = [draw(_value(draw(_KINDS), 3)) for _ in range(draw(st.integers(1, 3)))]
        listed = ", ".join(f"{item} AS c{number}" for number, item in enumerate(items))
        return f"SELECT {'DISTINCT ' if draw(st.integers(0, 4)) == 0 else ''}{listed} FROM items{where}"
    key = draw(_value(draw(_KINDS), 1))
    aggregates = [
        f"{draw(st.sampled_from(['max', 'min', 'count', 'sum', 'avg']))}({draw(_value('number', 2))})" for _ in range(2)
    ]
    having = " HAVING count(*) > 1" if draw(st.booleans()) else ""
    return f"SELECT {key} AS k, {aggregates[0]} AS a, {aggregates[1]} AS b FROM items{where} GROUP BY {key}{having}"


def equals_spark(question: str, connection: duckdb.DuckDBPyConnection, spark: SparkSession) -> None:
    """An answer must be Spark's. A refusal or a failure is no answer."""
    try:
        plan, rows = ask(connection, question)
    except (PenstockError, duckdb.Error):
        return
    answer = json.loads(json.dumps(shown(question, [kind for _, kind in plan.schema], rows)))
    try:
        expected = json.loads(json.dumps(spark_answer(spark, question)))
    except Exception as error:
        raise AssertionError(f"Spark fails: {question}: {str(error)[:300]}") from None
    assert answer["types"] == expected["types"], question
    assert same(answer["rows"], expected["rows"], near=True), question


def run(spark: SparkSession, examples: int) -> None:
    with connect() as connection:

        @settings(
            max_examples=examples, deadline=None, database=None, phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )  # fmt: skip
        @given(questions())
        def check(question: str) -> None:
            equals_spark(question, connection, spark)

        check()


@pytest.mark.xdist_group("spark")
def test_random_questions_are_answered_as_spark_does(quick_spark: SparkSession) -> None:
    run(quick_spark, 25)


@pytest.mark.deep
@pytest.mark.xdist_group("spark")
def test_many_random_questions_are_answered_as_spark_does(quick_spark: SparkSession) -> None:
    run(quick_spark, 2_000)
