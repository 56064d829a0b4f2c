"""The SQL face: the same definitions as in Python, written in SQL.

`parse` reads text into statements, `define` adds what a statement makes to an app, `load` does both for a file,
`question` turns a SELECT over views into what the store runs, `answer` answers SHOW, DESCRIBE and EXPLAIN, `show`
prints definitions as SQL, and a `Script` is a test.

>>> from penstock.app import App
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

from penstock.sql.answers import Answer, Subscription, answer, pane_schema, subscription, table_schema
from penstock.sql.catalog import define, flows
from penstock.sql.errors import SqlError
from penstock.sql.load import load
from penstock.sql.play import Play
from penstock.sql.question import question
from penstock.sql.read import parse, parse_one
from penstock.sql.script import Report, Script
from penstock.sql.show import show
from penstock.sql.statements import Statement

__all__ = [
    "Answer",
    "Play",
    "Report",
    "Script",
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
    "question",
    "show",
    "subscription",
    "table_schema",
]
