"""The SQL face: the same definitions as in Python, written in SQL.

`parse` reads text into statements, `define` adds what a statement makes to an app, `load` does both for a file,
`answer` answers SHOW, DESCRIBE and EXPLAIN, and `show` prints definitions as SQL.

>>> from penstock.app import App
>>> from penstock.sql import define, parse_one
>>> app = App("shop")
>>> define(app, parse_one("CREATE STREAM orders (item STRING, price INT) FROM FILES 'orders'"))
>>> define(app, parse_one("CREATE CONTINUOUS VIEW totals AS SELECT item, sum(prise) AS n FROM orders GROUP BY item"))
Traceback (most recent call last):
penstock.sql.errors.SqlError: sql:1:51: unknown column «prise»
    CREATE CONTINUOUS VIEW totals AS SELECT item, sum(prise) AS n FROM orders GROUP BY item
                                                      ^
  detail: there are: item, price
  hint: did you mean «price»?
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.sql.answers import Answer, Subscription, answer, pane_schema, subscription, table_schema
    from penstock.sql.catalog import define, flows
    from penstock.sql.errors import SqlError
    from penstock.sql.loading import load
    from penstock.sql.read import parse, parse_one
    from penstock.sql.showing import show
    from penstock.sql.statements import Statement

#: Whoever only reads statements does without the app, and so without Spark.
_MODULES = {
    "answers": ("Answer", "Subscription", "answer", "pane_schema", "subscription", "table_schema"),
    "catalog": ("define", "flows"), "errors": ("SqlError",), "loading": ("load",), "read": ("parse", "parse_one"),
    "showing": ("show",), "statements": ("Statement",),
}  # fmt: skip
_PLACES = {name: module for module, names in _MODULES.items() for name in names}

__all__ = [
    "Answer",
    "SqlError",
    "Statement",
    "Subscription",
    "answer",
    "define",
    "flows",
    "load",
    "pane_schema",
    "parse",
    "parse_one",
    "show",
    "subscription",
    "table_schema",
]


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"penstock.sql.{_PLACES[name]}"), name)
