"""Programs and statements of pages that stand without a prompt: those that define something are run. Those that need a
running app are checked to use only what exists."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock import client
from penstock.learning.stored import StoredModel
from penstock.runtime.run import Run
from penstock.sql import define, parse

DOCS = Path(__file__).parents[2] / "docs"
#: Which pages a test of their own runs. Those of docs/sql.md are in tests/sql, those of Kafka need its connector.
ELSEWHERE = {"sql.md", "tutorial.md", "kafka.md", "realtime.md", "first-view.md"}
#: What the statements of a page are about, where the page says it in Python.
BEFORE = {
    "audit.md": "",
    "cascades.md": """
        CREATE STREAM bids (auction BIGINT, price INT, at TIMESTAMP,
                               WATERMARK FOR at AS at - INTERVAL 4 SECONDS) FROM FILES 'in';""",
    "joins.md": """
        CREATE STREAM clicks (user INT, page STRING, at TIMESTAMP,
                               WATERMARK FOR at AS at - INTERVAL 10 SECONDS) FROM FILES 'in';
        CREATE STREAM clicked (ad_id INT, user INT, at TIMESTAMP,
                               WATERMARK FOR at AS at - INTERVAL 10 SECONDS) FROM FILES 'in';
        CREATE STREAM shown (ad INT, place INT, seen TIMESTAMP,
                               WATERMARK FOR seen AS seen - INTERVAL 10 SECONDS) FROM FILES 'in';
        CREATE STREAM orders (item STRING, n INT, at TIMESTAMP,
                               WATERMARK FOR at AS at - INTERVAL 10 SECONDS) FROM FILES 'in';
        CREATE STREAM prices (item STRING, price INT, since TIMESTAMP, deleted BOOLEAN,
                              WATERMARK FOR since AS since - INTERVAL 10 SECONDS) FROM FILES 'in';""",
    "sinks.md": """
        CREATE STREAM orders (item STRING, price DECIMAL(10, 2), at TIMESTAMP,
                              WATERMARK FOR at AS at - INTERVAL 10 SECONDS) FROM FILES 'in';
        CREATE CONTINUOUS VIEW sales AS SELECT item, count(*) AS n FROM orders GROUP BY item EMIT RETRACTING;""",
}
#: What the names of programs that need a running app stand for.
NAMES: dict[str, dict[str, Any]] = {
    "serving.md": {"penstock": ps, "shop": client.Client, "trending": client.View},
    "learning.md": {"run": Run, "model": StoredModel},
    "history.md": {"run": Run},
    "notebook.md": {"ps": ps, "app": ps.App, "run": Run, "shop": client.Client},
    "configuration.md": {"app": ps.App, "run": Run},
}


def blocks(page: str, language: str) -> list[str]:
    text = (DOCS / page).read_text(encoding="utf-8")
    return [block for block in re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.M) if ">>>" not in block]


def pages(language: str) -> set[str]:
    return {page.name for page in DOCS.glob("*.md") if blocks(page.name, language)} - ELSEWHERE


@pytest.mark.parametrize("page", sorted(pages("sql")))
def test_the_statements_of_every_page_are_understood(page: str) -> None:
    for text in blocks(page, "sql"):
        assert parse(text)


@pytest.mark.parametrize("page", sorted(set(BEFORE) - {"audit.md"}))
def test_the_statements_of_a_page_define_an_app(page: str) -> None:
    app = ps.App("page")
    statements = [statement for text in [BEFORE[page], *blocks(page, "sql")] for statement in parse(text)]
    assert len(statements) > BEFORE[page].count(";")
    for statement in statements:
        define(app, statement)


def test_the_programs_about_joins_run() -> None:
    app, late = ps.App("page"), ps.bounded("10 seconds")
    clicks = app.stream("clicks", ps.files("clicks"), schema="user int, at timestamp", event_time="at", watermark=late)
    orders = app.stream(
        "orders", ps.files("orders"), schema="item string, at timestamp", event_time="at", watermark=late
    )
    app.view("by_user", clicks.group_by("user").agg(n=ps.count()))
    tables, side_input, versions = blocks("joins.md", "python")
    exec(tables + side_input, scope := {"ps": ps, "app": app, "clicks": clicks})
    assert {"users", "prices", "best", "gold"} <= set(scope)
    other = ps.App("page")
    orders = other.stream(
        "orders", ps.files("orders"), schema="item string, at timestamp", event_time="at", watermark=late
    )
    exec(versions, scope := {"ps": ps, "app": other, "orders": orders})
    assert "percent" not in scope["priced"].schema.names
    assert "price" in scope["priced"].schema.names


@pytest.mark.parametrize("page", sorted(pages("python") | set(NAMES)))
def test_a_program_for_a_running_app_uses_what_exists(page: str) -> None:
    for program in blocks(page, "python"):
        for node in ast.walk(ast.parse(program)):
            if isinstance(node, ast.ImportFrom) and node.module is not None:
                module = importlib.import_module(node.module)
                assert [name.name for name in node.names if not hasattr(module, name.name)] == []
            names = {"ps": ps, **NAMES.get(page, {})}
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in names:
                owner = names[node.value.id]
                assert hasattr(owner, node.attr) or f"self.{node.attr} =" in inspect.getsource(owner), node.attr
