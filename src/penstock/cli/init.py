"""The command `init`: a small app to begin with, with its data, its test and a README."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Final

import typer

from penstock.cli.options import Debug, errors_shown, output
from penstock.errors import PenstockError
from penstock.model.naming import valid_name

_APP: Final = '''"""Orders by item and minute."""

import penstock as ps

app = ps.App("{name}")

orders = app.stream(
    "orders",
    ps.files("orders"),
    schema="id string, item string, price double, at timestamp",
    event_time="at",
    watermark=ps.bounded("10 seconds"),
    id="id",
)

sales = app.view(
    "sales",
    orders.where(ps.col("price") > 0)
    .group_by("item")
    .window(ps.fixed("1 minute"))
    .agg(orders=ps.count(), total=ps.sum("price"))
    .trigger(ps.on_time(early=ps.each()))
    .allow_late("5 minutes"),
)
'''
_TEST: Final = '''"""The view, tried on a few events: without Spark, in milliseconds."""

from app import orders, sales

from penstock.testing import TestStream, run


def test_orders_are_summed_by_item_and_minute():
    script = TestStream(orders).add(
        ("1", "tea", 3.0, "12:00:05"),
        ("2", "tea", 4.0, "12:00:55"),
        ("2", "tea", 4.0, "12:00:55"),  # delivered twice: the id says so
        ("3", "pot", -1.0, "12:00:30"),  # not an order
        ("4", "tea", 5.0, "12:01:10"),
    )
    table = run(sales, script).table
    assert [(row["item"], row["orders"], row["total"]) for row in table] == [("tea", 2, 7.0), ("tea", 1, 5.0)]
'''
_README: Final = """# {name}

| command | what it does |
|---|---|
| `pytest` | tests the view without Spark |
| `penstock run app.py` | runs the app; copy more files into `orders/`, and the view follows |
| `penstock query "SELECT * FROM sales"` | asks the view, in another terminal |
| `penstock serve` | the dashboard while the app is stopped; while it runs, it is at <http://127.0.0.1:8765> |
| `penstock explain app.py` | shows the dataflow, and what each view means |
"""
_ITEMS: Final = ("tea", "pot", "cup")


def init(
    directory: Annotated[Path, typer.Argument(help="Where the app goes. It is made if it is missing.", metavar="DIR")],
    debug: Debug = False,
) -> None:
    """Write a small app to begin with: app.py, its test, some data and a README."""
    with errors_shown(debug):
        target = directory.resolve()
        name = "".join(char if char.isalnum() else "_" for char in target.name).strip("_").lower()
        files = {
            "app.py": _APP.format(name=name if valid_name(name) else "shop"),
            "test_app.py": _TEST,
            "README.md": _README.format(name=target.name),
            "orders/2024-05-01.json": _orders(),
        }
        taken = [path for path in files if (target / path).exists()]
        if taken:
            raise PenstockError(f"'{directory}' has a file '{taken[0]}' already", hint="choose another directory")
        for path, text in files.items():
            (target / path).parent.mkdir(parents=True, exist_ok=True)
            (target / path).write_text(text, encoding="utf-8")
        output().print(
            f"wrote {', '.join(files)}\nnext: cd {directory} && penstock run app.py", markup=False, highlight=False
        )


def _orders() -> str:
    """Three minutes of orders, one every ten seconds."""
    rows = [
        {"id": f"o{number}", "item": _ITEMS[number % 3], "price": 2.5 + number % 4,
         "at": f"2024-05-01T12:0{number // 6}:{number % 6}0Z"}
        for number in range(18)
    ]  # fmt: skip
    return "".join(json.dumps(row) + "\n" for row in rows)
