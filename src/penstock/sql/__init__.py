"""The SQL face: the same definitions as in Python, written in SQL.

`parse` reads text into statements, `define` adds what a statement makes to an app, `load` does both for a file,
`answer` answers SHOW, DESCRIBE and EXPLAIN, and `show` prints definitions as SQL.

>>> from penstock.app import App
>>> from penstock.sql import define, parse_one
>>> app = App("shop")
>>> define(app, parse_one("CREATE STREAM orders (item STRING, price INT) FROM FILES 'orders'"))
>>> define(app, parse_one("CREATE CONTINUOUS VIEW totals AS SELECT item, sum(prise) AS n FROM orders GROUP BY item"))
Traceback (most recent call last):
penstock.sql.errors.SqlError: sql:1:51: unknown column 'prise'
    CREATE CONTINUOUS VIEW totals AS SELECT item, sum(prise) AS n FROM orders GROUP BY item
                                                      ^
  detail: there are: item, price
  hint: did you mean 'price'?
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.lazy import lazy

if TYPE_CHECKING:
    from penstock.sql.answers import Answer, Subscription, answer, pane_schema, subscription, table_schema
    from penstock.sql.catalog import define, flows
    from penstock.sql.errors import SqlError
    from penstock.sql.loading import load
    from penstock.sql.read import parse, parse_one
    from penstock.sql.showing import show
    from penstock.sql.statements import Statement

#: Reading statements needs neither the app nor Spark.
__getattr__ = lazy(
    __name__,
    {
        "answers": "Answer Subscription answer pane_schema subscription table_schema",
        "catalog": "define flows",
        "errors": "SqlError",
        "loading": "load",
        "read": "parse parse_one",
        "showing": "show",
        "statements": "Statement",
    },
)

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
