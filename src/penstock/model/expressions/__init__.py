"""Expressions of a view: SQL text in Spark's dialect, its meaning over a schema, and its value on a row.

`parse` reads the syntax, `bind` gives it types, `evaluate` is the specification of its value. What the subset does not
have is named in `Bound.outside` and left to Spark.

>>> from penstock.model.types import Schema
>>> bound = bind("Price*2 > 10", Schema.parse("price int"))
>>> bound.text, bound.type, bound.outside, evaluate(bound, {"price": 6})
('price * 2 > 10', 'boolean', None, True)
"""

from penstock.model.expressions.bind import Bound, bind
from penstock.model.expressions.column import Case, Expression, Functions, Sql, call, col, expr, lit, sql_text, when
from penstock.model.expressions.evaluate import evaluate
from penstock.model.expressions.parse import ParsedExpression, parse

__all__ = [
    "Bound",
    "Case",
    "Expression",
    "Functions",
    "ParsedExpression",
    "Sql",
    "bind",
    "call",
    "col",
    "evaluate",
    "expr",
    "fn",
    "lit",
    "parse",
    "sql_text",
    "when",
]

#: The SQL functions: `fn.upper(col("name"))`.
fn = Functions()
