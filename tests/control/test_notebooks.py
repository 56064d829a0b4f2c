"""Notebooks: their cells run in order, and what a cell ends with is shown as HTML."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.app import App
from penstock.testing import TestStream, run

NOTEBOOK = Path(__file__).parents[2] / "examples" / "notebook" / "orders.ipynb"


def sources() -> list[str]:
    cells = json.loads(NOTEBOOK.read_text())["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]


def outcome(source: str, names: dict[str, Any]) -> tuple[Any, str | None]:
    """Runs a cell: the value of the expression that it ends with, and how a notebook shows it then."""
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "cell", "exec"), names)
    value = None if last is None else eval(compile(ast.Expression(last.value), "cell", "eval"), names)
    return value, value._repr_html_() if hasattr(value, "_repr_html_") else None


def test_the_example_runs_cell_by_cell(spark: object, monkeypatch: pytest.MonkeyPatch) -> None:
    start = App.start
    monkeypatch.setattr(App, "start", lambda app, directory: start(app, directory, spark=spark))
    names: dict[str, Any] = {}
    outcomes = []
    try:
        outcomes = [outcome(source, names) for source in sources()]
    finally:
        if "running" in names:
            names["running"].stop()
    shown = [text for _, text in outcomes if text is not None]
    assert len(shown) == 7  # stream, view, result, explanation, run, its view, the answer
    assert "<td>price</td>" in shown[0]
    assert "<caption>sales</caption>" in shown[1]
    assert "<td>on time</td>" in shown[2]
    assert 'src="data:image/svg+xml;base64,' in shown[3]
    assert "orders: running" in shown[4]
    assert "<td>20.0</td>" in shown[5]
    assert outcomes[-2][0].rows() == [("pot", 20.0), ("tea", 7.0)]


def test_what_notebooks_show_is_never_markup() -> None:
    app = ps.App("shop")
    orders = app.take_stream(ps.stream("orders", schema="item string"))
    named = app.view("by_item", orders.group_by("upper(concat(item, '<b>')) AS name").agg(n=ps.count()))
    result = run(named, TestStream(orders).add(("<i>",)))
    for shown in (named._repr_html_(), result._repr_html_(), app._repr_html_()):
        assert "<b>" not in shown
        assert "<i>" not in shown.lower()
    assert "&lt;b&gt;" in named._repr_html_()
    assert orders.transform(lambda df: df)._repr_html_().startswith("<pre>")
    assert str(app.explain()) == app.graph().text()
