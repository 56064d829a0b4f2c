"""INTERVAL literals of questions, by Spark's types: whole days, time, or months.

>>> from sqlglot import parse_one
>>> from penstock.model.expressions.dialect import SparkExpressions
>>> interval(parse_one("INTERVAL '1-2' YEAR TO MONTH", read=SparkExpressions))
Literal(value=14, type='interval month')
"""

from __future__ import annotations

import re
from decimal import Decimal

from sqlglot import exp

from penstock.model.expressions.calendar import ALIASES, DAY, UNITS
from penstock.model.expressions.coerce import Outside
from penstock.model.expressions.tree import INTERVAL, Literal
from penstock.query.arithmetic import DAYS, MONTHS

_LENGTHS = {**UNITS, "WEEK": 7 * DAY}
_MONTHS = {"MONTH": 1, "YEAR": 12}
_WORD = re.compile(r"\s*([+-]?\d+(?:\.\d+)?)\s*([a-zA-Z]+)\s*")
_YEARS = re.compile(r"\s*([+-]?)(\d+)-(\d+)\s*")
#: From days to seconds; which parts there are depends on the units.
_CLOCK = re.compile(r"\s*([+-]?)(?:(\d+)\s+)?(\d+):(\d+)(?::(\d+(?:\.\d{1,6})?))?\s*")


def interval(tree: exp.Interval) -> Literal:
    """The length of an INTERVAL: microseconds, or months."""
    value, unit = tree.this, tree.args.get("unit")
    minus = False
    if isinstance(value, exp.Neg):
        minus, value = True, value.this
    if not isinstance(value, exp.Literal):
        raise Outside("an INTERVAL must be a constant")
    if isinstance(unit, exp.IntervalSpan):
        parts = [_span(value.name, unit.this.name.upper(), unit.expression.name.upper())]
    elif unit is not None:
        parts = [_part(value.name, unit.name)]
    else:
        text = re.sub(r"^\s*interval\s", "", value.name, flags=re.IGNORECASE)
        parts, at = [], 0
        while at < len(text):
            word = _WORD.match(text, at)
            if word is None:
                raise Outside(f"the interval '{value.name}' is not supported")
            parts.append(_part(word[1], word[2]))
            at = word.end()
    kinds = {part.type for part in parts}
    if not parts or (MONTHS in kinds and len(kinds) > 1):
        raise Outside(f"the interval '{value.name}' is not supported")
    total = sum(part.value for part in parts if isinstance(part.value, int))
    return Literal(-total if minus else total, kinds.pop() if len(kinds) == 1 else INTERVAL)


def _part(count: str, unit: str) -> Literal:
    name = ALIASES.get(unit.upper(), unit.upper())
    count = count.strip()
    if not re.fullmatch(r"[+-]?\d+" + (r"(\.\d{1,6})?" if name == "SECOND" else ""), count):
        raise Outside(f"the interval '{count} {unit}' is not supported")
    if name in _MONTHS:
        return Literal(int(count) * _MONTHS[name], MONTHS)
    if name not in _LENGTHS:
        raise Outside(f"the interval '{count} {unit}' is not supported")
    return Literal(int(Decimal(count) * _LENGTHS[name]), DAYS if name in ("DAY", "WEEK") else INTERVAL)


def _span(text: str, first: str, last: str) -> Literal:
    """INTERVAL '1-2' YEAR TO MONTH, or INTERVAL '1 12:30:00' DAY TO SECOND."""
    if (first, last) == ("YEAR", "MONTH") and (match := _YEARS.fullmatch(text)):
        months = int(match[2]) * 12 + int(match[3])
        return Literal(-months if match[1] == "-" else months, MONTHS)
    match = _CLOCK.fullmatch(text)
    with_days = first == "DAY"
    if match is None or (first, last) not in (
        ("DAY", "SECOND"),
        ("DAY", "MINUTE"),
        ("HOUR", "SECOND"),
        ("HOUR", "MINUTE"),
    ):
        raise Outside(f"the interval '{text}' {first} TO {last} is not supported")
    if with_days != (match[2] is not None) or (last == "SECOND") != (match[5] is not None):
        raise Outside(f"the interval '{text}' is not a {first} TO {last}")
    length = int(match[2] or 0) * DAY + int(match[3]) * UNITS["HOUR"] + int(match[4]) * UNITS["MINUTE"]
    length += int(Decimal(match[5] or 0) * UNITS["SECOND"])
    return Literal(-length if match[1] == "-" else length, INTERVAL)
