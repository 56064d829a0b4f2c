"""Attacks with SQL: questions that would take long to plan, or reach what no view holds."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress

import pytest

from penstock.errors import PenstockError
from penstock.model.types import Schema
from penstock.query.plan import compile_query

VIEWS = {"v": Schema.parse("x int, y int, k string")}


def compile_seconds(question: str) -> float:
    """How much CPU a question takes until it is planned or refused."""
    begin = time.process_time()
    with suppress(PenstockError):
        compile_query(question, VIEWS)
    return time.process_time() - begin


def terms(count: int) -> str:
    return "SELECT x FROM v WHERE " + " OR ".join(f"x = {number}" for number in range(count))


def test_terms_are_planned_in_linear_time() -> None:
    """Asks a question of thousands of terms: planned in linear time, or refused before it is parsed."""
    few = min(compile_seconds(terms(300)) for _ in range(3))
    assert min(compile_seconds(terms(3_000)) for _ in range(3)) < 40 * few
    with pytest.raises(PenstockError, match="32004 words and signs, and may have 20000"):
        compile_query(terms(8_000), VIEWS)
    assert min(compile_seconds(terms(8_000)) for _ in range(3)) < 40 * few


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (lambda n: "SELECT " + "(" * n + "x" + ")" * n + " FROM v", "brackets within brackets"),
        (lambda n: "SELECT " + "abs(" * n + "x" + ")" * n + " FROM v", "brackets within brackets"),
        (lambda n: "SELECT " + "CASE WHEN x = 1 THEN " * n + "1" + " END" * n + " FROM v", "brackets within brackets"),
        (lambda n: "SELECT x FROM " + "(SELECT x FROM " * n + "v" + ")" * n, "brackets within brackets"),
        (lambda n: "SELECT x" + " + 1" * n + " FROM v", "nested more than"),
        (lambda n: "SELECT x FROM v WHERE " + "NOT " * n + "x = 1", "nested more than|cannot read"),
        (lambda n: " UNION ALL ".join(["SELECT x FROM v"] * n), "nested more than"),
    ],
)
def test_deep_questions_are_refused(text: Callable[[int], str], reason: str) -> None:
    """Nests a question as deep as it goes: refused, whatever it is nested in."""
    with pytest.raises(PenstockError, match=reason):
        compile_query(text(500), VIEWS)
    compile_query(text(20), VIEWS)


@pytest.mark.parametrize(
    "question",
    [
        "SELECT x + x AS a0, " + ", ".join(f"a{n - 1} + a{n - 1} AS a{n}" for n in range(1, 60)) + " FROM v",
        "SELECT " + "1 / (" * 35 + "x" + ")" * 35 + " FROM v",
        "SELECT r0.x FROM v r0 " + " ".join(f"JOIN v r{n} ON r0.x = r{n}.x" for n in range(1, 1_000)),
    ],
)
def test_questions_that_grow_are_refused(question: str) -> None:
    """Writes a short question that doubles with every alias, division or join: refused."""
    with pytest.raises(PenstockError, match=r"too large|more than 100 times"):
        compile_query(question, VIEWS)


@pytest.mark.parametrize(
    "question",
    [
        "SELECT * FROM read_csv('/etc/passwd')", "SELECT * FROM '/etc/passwd'", "SELECT * FROM duckdb_settings()",
        "SELECT * FROM information_schema.tables", "SELECT getenv('HOME')", "SELECT * FROM pragma_version()",
        "COPY v TO '/tmp/x'", "ATTACH 'x.db'", "INSTALL httpfs", "SELECT x FROM v; DROP TABLE v",
        "SELECT spark_upper(k) FROM v", "SELECT error('x')", "SELECT x FROM scan_1",
    ],
)  # fmt: skip
def test_only_views_and_listed_functions_are_reached(question: str) -> None:
    """Calls DuckDB's own functions and tables: refused, for only views and listed functions have names."""
    with pytest.raises(PenstockError):
        compile_query(question, VIEWS)


def test_no_literal_is_part_of_the_text() -> None:
    """Puts SQL into literals, aliases and patterns: it stays a value or a quoted name."""
    literal, alias = "a''; DROP TABLE v; --", 'x"; DROP TABLE v; --'
    plan = compile_query(
        f"SELECT '{literal}' AS `{alias}`, k LIKE '%$1; DROP%' AS m FROM v WHERE k = 'DROP' LIMIT 7", VIEWS
    )
    assert plan.sql.count("DROP") == 1
    assert '"x""; DROP TABLE v; --"' in plan.sql
    assert {"a'; DROP TABLE v; --", "DROP", 7} <= set(plan.parameters)
