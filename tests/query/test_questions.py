"""Questions are answered as Spark answers them, fail where it fails, or are refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

from penstock.errors import PenstockError
from penstock.query.plan import compile_query
from tests.query.asking import ANSWERS, ask, connect, same
from tests.query.questions import FAILING, NOW, QUESTIONS, REFUSED
from tests.query.record import shown, spark_answer
from tests.query.rows import SCHEMAS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def answers() -> dict[str, dict[str, Any]]:
    recorded: dict[str, dict[str, Any]] = json.loads(ANSWERS.read_text())
    return recorded


@pytest.fixture(scope="module")
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with connect() as connection:
        yield connection


@pytest.mark.parametrize("question", QUESTIONS)
def test_an_answer_has_sparks_types_and_values(
    question: str, connection: duckdb.DuckDBPyConnection, answers: dict[str, dict[str, Any]]
) -> None:
    plan, rows = ask(connection, question)
    answer = json.loads(json.dumps(shown(question, [kind for _, kind in plan.schema], rows)))
    assert answer["types"] == answers[question]["types"]
    near = any(word in question for word in ("stddev", "var", "std(", "percentile"))
    assert same(answer["rows"], answers[question]["rows"], near=near), (answer["rows"], answers[question]["rows"])


@pytest.mark.parametrize("question", FAILING)
def test_a_question_fails_with_a_reason_where_spark_fails(question: str, connection: duckdb.DuckDBPyConnection) -> None:
    with pytest.raises(duckdb.Error) as error:
        ask(connection, question)
    assert FAILING[question].lower() in str(error.value).lower()


@pytest.mark.parametrize("question", REFUSED)
def test_a_question_is_refused_before_it_runs(question: str) -> None:
    with pytest.raises(PenstockError) as error:
        compile_query(question, SCHEMAS, now=NOW)
    assert REFUSED[question] in str(error.value)


def recorded_as_spark_answers(spark: SparkSession, questions: list[str], answers: dict[str, dict[str, Any]]) -> None:
    for question in questions:
        answer = json.loads(json.dumps(spark_answer(spark, question)))
        assert answer["types"] == answers[question]["types"], question
        assert same(answer["rows"], answers[question]["rows"], near=True), question


@pytest.mark.xdist_group("spark")
def test_the_recorded_answers_are_those_of_spark(quick_spark: SparkSession, answers: dict[str, dict[str, Any]]) -> None:
    recorded_as_spark_answers(quick_spark, QUESTIONS[::16], answers)
    assert set(answers) == set(QUESTIONS)


@pytest.mark.deep
@pytest.mark.xdist_group("spark")
def test_all_recorded_answers_are_those_of_spark(quick_spark: SparkSession, answers: dict[str, dict[str, Any]]) -> None:
    recorded_as_spark_answers(quick_spark, QUESTIONS, answers)
    for question in FAILING:
        with pytest.raises(Exception, match="SQLSTATE"):
            spark_answer(quick_spark, question)
