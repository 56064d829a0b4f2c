"""Intervals of fixed length, from microseconds to weeks. Months and years have none, and stay outside.

>>> from sqlglot import parse_one
>>> from penstock.model.expressions.dialect import SparkExpressions
>>> interval(parse_one("INTERVAL 90 MINUTES", read=SparkExpressions))
Literal(value=5400000000, type='interval')
"""

from __future__ import annotations

import re
from decimal import Decimal

from sqlglot import exp

from penstock.model.expressions.calendar import ALIASES, DAY, UNITS
from penstock.model.expressions.coerce import Outside
from penstock.model.expressions.tree import INTERVAL, Literal

_WORDS = re.compile(r"\s*([+-]?\d+(?:\.\d+)?)\s+([a-zA-Z]+)\s*")
_LENGTHS = {**UNITS, "WEEK": 7 * DAY}


def interval(tree: exp.Interval) -> Literal:
    """The length in microseconds of INTERVAL 1 DAY, INTERVAL '1' DAY or INTERVAL '1 day 2 hours'."""
    value, unit = tree.this, tree.args.get("unit")
    if not isinstance(value, exp.Literal) or (unit is not None and not isinstance(unit, exp.Var)):
        raise Outside(f"the interval '{tree.sql('spark')}' is outside the kernel")
    if unit is not None:
        return Literal(_length(value.name, unit.name), INTERVAL)
    at, total = 0, 0
    while at < len(value.name):
        part = _WORDS.match(value.name, at)
        if part is None:
            raise Outside(f"the interval '{value.name}' is outside the kernel")
        total, at = total + _length(part[1], part[2]), part.end()
    return Literal(total, INTERVAL)


def _length(count: str, unit: str) -> int:
    name = ALIASES.get(unit.upper(), unit.upper())
    if name not in _LENGTHS or not re.fullmatch(
        r"[+-]?\d+" + (r"(\.\d{1,6})?" if name == "SECOND" else ""), count.strip()
    ):
        raise Outside(f"the interval '{count} {unit}' is outside the kernel")
    return int(Decimal(count.strip()) * _LENGTHS[name])
