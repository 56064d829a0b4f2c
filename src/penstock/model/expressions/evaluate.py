"""The specification: the value of a bound expression on one row.

>>> from penstock.model.expressions.bind import bind
>>> from penstock.model.types import Schema
>>> evaluate(bind("nvl(price, 0) * 2", Schema.parse("price int")), {"price": 21})
42
"""

from __future__ import annotations

from collections.abc import Mapping

from penstock.errors import DefinitionError
from penstock.model.expressions.bind import Bound
from penstock.model.expressions.interpret import value


def evaluate(bound: Bound, row: Mapping[str, object]) -> object:
    """The value of an expression on a row, None for null. Raises RowError where Spark's query would fail.

    Dates are days and timestamps microseconds since 1970; decimals are Decimal; floats of 32 bits are rounded to them.
    """
    if bound.tree is None:
        raise DefinitionError(f"'{bound.text}' cannot be evaluated without Spark", detail=bound.outside)
    return value(bound.tree, row)
