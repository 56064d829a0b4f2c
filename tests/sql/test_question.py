"""SELECT over views: it runs on SQLite, through the store's own connection, and nothing of a user's text gets there."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock import sql
from penstock.model.time import instant
from penstock.store.sqlite_connection import SqliteConnection as Connection

VIEWS = {"trending": ("tag", "window_start", "window_end", "posts", "final"), "totals": ("tag", "n")}
CASES = yaml.safe_load((Path(__file__).parent / "fixtures" / "questions.yaml").read_text(encoding="utf-8"))["cases"]
TABLES = """
    CREATE TABLE trending (tag, window_start, window_end, posts, final);
    CREATE TABLE totals (tag, n);
    INSERT INTO totals VALUES ('a', 1), ('b', 2), ('it''s', 3);
    INSERT INTO trending VALUES ('a', '2024-05-01 12:00:00', '2024-05-01 12:01:00', 5, 1),
                                ('b', '2024-05-01 12:00:00', '2024-05-01 12:01:00', 7, 0);
"""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("store") / "store.db"
    with sqlite3.connect(path) as made:
        made.executescript(TABLES)
    return path


def answer(store: Path, text: str, now: str = "2024-05-02T00:00:00Z") -> list[tuple[object, ...]]:
    connection = Connection(store)
    try:
        return connection.rows(*sql.question(text, VIEWS, now=instant(now))).rows()
    finally:
        connection.close()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["sql"][:60])
def test_the_store_takes_it(store: Path, case: dict[str, str]) -> None:
    with sqlite3.connect(store) as plain:
        expected = plain.execute(*sql.question(case["sql"], VIEWS, now=instant("2024-05-02T00:00:00Z"))).fetchall()
    assert answer(store, case["sql"]) == expected


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("SELECT n FROM totals WHERE tag = 'it''s'", [(3,)]),
        ("SELECT n / 2 AS half FROM totals ORDER BY n", [(0.5,), (1.0,), (1.5,)]),
        ("SELECT tag FROM trending WHERE window_start >= now() - INTERVAL 12 HOURS", [("a",), ("b",)]),
        ("SELECT tag FROM trending WHERE window_start >= now() - INTERVAL 11 HOURS", []),
        ("SELECT tag FROM trending WHERE CAST(window_start AS DATE) = DATE '2024-05-01' AND final", [("a",)]),
        (
            "SELECT window_end FROM trending WHERE window_end = window_start + INTERVAL 1 MINUTE LIMIT 1",
            [("2024-05-01 12:01:00",)],
        ),
        ("SELECT totals.tag FROM totals JOIN trending USING (tag) ORDER BY 1", [("a",), ("b",)]),
        ("SELECT tag, rank() OVER (ORDER BY n DESC) AS r FROM totals ORDER BY r LIMIT 1", [("it's", 1)]),
    ],
)
def test_what_the_store_answers(store: Path, text: str, rows: list[tuple[object, ...]]) -> None:
    assert answer(store, text) == rows


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")))
@settings(max_examples=200, deadline=None)
def test_a_literal_never_reaches_the_store_as_text(value: str) -> None:
    quoted = value.replace("\\", "\\\\").replace("'", "\\'")
    text, parameters = sql.question(f"SELECT n FROM totals WHERE tag = '{quoted}'", VIEWS)
    assert text == 'SELECT "totals"."n" AS "n" FROM "totals" AS "totals" WHERE "totals"."tag" = ?1'
    assert parameters == [value]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM sqlite_master",
        "SELECT * FROM pragma_table_info('totals')",
        "SELECT load_extension('x')",
        "SELECT readfile('/etc/passwd')",
        "SELECT n FROM totals; DROP TABLE totals",
        "SELECT n FROM main.totals",
        'SELECT n AS `x" FROM sqlite_master --` FROM totals',
        'SELECT `x" FROM sqlite_master --` FROM totals',
        'SELECT n FROM totals AS `t" , sqlite_master`',
        'WITH `a"b` AS (SELECT n FROM totals) SELECT * FROM `a"b`',
        "WITH RECURSIVE x AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM x) SELECT sqlite_version() FROM x",
        "DELETE FROM totals",
        "SELECT n INTO other FROM totals",
        "SELECT CAST(n AS `x) --`) FROM totals",
        "SELECT n FROM totals LIMIT ?",
        "SELECT :p1 FROM totals",
        "SELECT @x FROM totals",
        "SELECT rowid FROM totals",
        "SELECT \"n\" FROM totals WHERE tag = x'00'",
        "SELECT ${x} FROM totals",
        "PRAGMA writable_schema = 1",
        "ATTACH DATABASE 'x' AS y",
    ],
)
def test_what_is_not_known_is_refused(text: str) -> None:
    with pytest.raises(sql.SqlError):
        sql.question(text, VIEWS)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["sql"][:60])
def test_what_the_store_gets_has_no_literals(case: dict[str, str]) -> None:
    text, _ = sql.question(case["sql"], VIEWS)
    assert "'" not in text
    assert not re.search(r"(?<![\w?\"])\d", re.sub(r'"[^"]*"', "", text))


def test_a_question_knows_the_names_as_they_are_spelled() -> None:
    text, _ = sql.question("select TAG from Totals", {"totals": ("tag",), "other": ("x",)})
    assert text == 'SELECT "totals"."tag" AS "tag" FROM "totals" AS "totals"'
