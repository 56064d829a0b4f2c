"""Pairs of SQL before and definition after; for wrong statements, the whole text of the error."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

import penstock as ps
from penstock import sql
from penstock.app import App
from penstock.query.plan import compile_query
from penstock.sql import statements

FIXTURES = Path(__file__).parent / "fixtures"


def cases(name: str) -> list[Any]:
    document = yaml.safe_load((FIXTURES / name).read_text(encoding="utf-8"))
    return [pytest.param(document, case, id=str(case["sql"])[:80]) for case in document["cases"]]


def defined(given: str, *texts: str) -> App:
    app = App("fixtures")
    for statement in sql.parse(given):
        sql.define(app, statement, without_log=True)
    for text in texts:
        for statement in sql.parse(text):
            sql.define(app, statement, without_log=True)
    return app


def meant(text: str, app: App) -> object:
    return eval(f"({text})", {"ps": ps, **sql.flows(app), **app.streams})


@pytest.mark.parametrize(("document", "case"), cases("streams.yaml"))
def test_a_stream_means_what_it_means_in_python(document: dict[str, Any], case: dict[str, Any]) -> None:
    before = defined(document["given"])
    app = defined(document["given"], case["sql"])
    made = {**app.streams, **sql.flows(app)}
    (name,) = made.keys() - before.streams.keys() - sql.flows(before).keys()
    assert made[name] == meant(case["is"], before)


@pytest.mark.parametrize(("document", "case"), cases("views.yaml"))
def test_a_view_means_what_it_means_in_python(document: dict[str, Any], case: dict[str, Any]) -> None:
    app = defined(document["given"], f"CREATE CONTINUOUS VIEW x AS {case['sql']}")
    assert app.views["x"] == meant(case["is"], app)


@pytest.mark.parametrize(("document", "case"), cases("statements.yaml"))
def test_a_statement_is_a_value(document: dict[str, Any], case: dict[str, Any]) -> None:
    (statement,) = sql.parse(case["sql"])
    assert re.sub(r"Piece\(text=(?:'((?:[^'\\]|\\.)*)'|\"([^\"]*)\")\)", r"\1\2", repr(statement)) == case["is"]


@pytest.mark.parametrize(("document", "case"), cases("wrong.yaml"))
def test_a_wrong_statement_is_refused_where_it_is_wrong(document: dict[str, Any], case: dict[str, Any]) -> None:
    assert refusal(document["given"], case["sql"]) == case["error"].rstrip("\n")


def refusal(given: str, text: str) -> str:
    with pytest.raises(sql.SqlError) as caught:
        done(defined(given), text)
    return str(caught.value)


def done(app: App, text: str) -> None:
    for statement in sql.parse(text, "app.sql"):
        match statement:
            case statements.Question() | statements.History():
                compile_query(statement, {name: sql.table_schema(view) for name, view in app.views.items()})
            case statements.Subscribe():
                sql.subscription(app, statement)
            case statements.Describe() | statements.Explain() | statements.ShowCreate():
                sql.answer(app, statement)
            case _:
                sql.define(app, statement)


def test_there_are_enough_of_them() -> None:
    right = sum(len(cases(name)) for name in ("streams.yaml", "views.yaml", "statements.yaml"))
    wrong = len(cases("wrong.yaml"))
    assert right + wrong >= 150
    assert wrong * 3 >= right
