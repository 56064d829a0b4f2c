"""Nothing of a question's text reaches the engine: names are looked up, literals bound, and all else is refused."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import DefinitionError
from penstock.model.types import Schema
from penstock.query.parameters import bound
from penstock.query.plan import compile_query
from penstock.sql.errors import SqlError

VIEWS = {"totals": Schema.parse("tag string, n bigint")}


@given(st.text(st.characters(exclude_categories=["Cs"])))
@settings(max_examples=100, deadline=None)
def test_a_parameter_is_one_value_whatever_it_holds(value: str) -> None:
    plan = compile_query(bound("SELECT n FROM totals WHERE tag = :tag", {"tag": value}), VIEWS)
    assert plan.sql == compile_query("SELECT n FROM totals WHERE tag = 'x'", VIEWS).sql
    assert value in plan.parameters


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM sqlite_master",
        "SELECT * FROM duckdb_settings()",
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM '/etc/passwd'",
        "SELECT * FROM csv.`/etc/passwd`",
        "SELECT load_extension('x') AS x",
        "SELECT getenv('HOME') AS x",
        "SELECT n FROM totals; DROP TABLE totals",
        "SELECT n FROM main.totals",
        'SELECT `x" FROM sqlite_master --` FROM totals',
        "WITH RECURSIVE x AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM x) SELECT sqlite_version() FROM x",
        "DELETE FROM totals",
        "SELECT n INTO other FROM totals",
        "SELECT CAST(n AS `x) --`) FROM totals",
        "SELECT n FROM totals LIMIT ?",
        "SELECT :p1 FROM totals",
        "SELECT @x FROM totals",
        "SELECT rowid FROM totals",
        "SELECT ${x} FROM totals",
        "PRAGMA writable_schema = 1",
        "ATTACH DATABASE 'x' AS y",
    ],
)
def test_what_is_not_known_is_refused(text: str) -> None:
    with pytest.raises((SqlError, DefinitionError)):
        compile_query(text, VIEWS)


def test_names_are_known_in_any_case() -> None:
    assert compile_query("select TAG from Totals", VIEWS).scans[0].view == "totals"


def test_an_unknown_function_is_named_with_the_near_miss() -> None:
    with pytest.raises(SqlError, match="there is no function 'cout'") as caught:
        compile_query("SELECT cout(*) FROM totals", VIEWS)
    assert caught.value.hint == "did you mean count?"
    assert "sum" in str(caught.value.detail)
