"""The conditions of a WHERE that a store may apply before the query does: one column and constants."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any

from penstock.errors import RowError
from penstock.model.expressions.interpret import value
from penstock.model.expressions.tree import Call, Column, Literal, is_constant
from penstock.model.types import is_float
from penstock.query.nodes import Node
from penstock.query.plan import Filter
from penstock.query.relations import ScanUse

_OPS: dict[str, Any] = {"eq": "=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "same": "="}
_TURNED = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
Origins = Mapping[str, tuple[ScanUse, str]]


def filters_of(node: Node, origins: Origins, *, joined: bool) -> None:
    """Adds the filters of a condition to the scans of its columns.

    All but IS NULL reject nulls, so that they may be applied below an outer join too.
    """
    if isinstance(node, Call) and node.name == "and":
        for arg in node.args:
            filters_of(arg, origins, joined=joined)
        return
    if not isinstance(node, Call):
        return
    if node.name == "is_null" and not joined:
        _add(node.args[0], "is null", [], origins)
    elif node.name == "in":
        _add(node.args[0], "in", list(node.args[1:]), origins)
    elif node.name in _OPS and len(node.args) == 2:
        left, right = node.args
        op = _OPS[node.name]
        if isinstance(right, Column):
            left, right, op = right, left, _TURNED[op]
        _add(left, op, [right], origins)


def _add(column: Node, op: Any, constants: list[Node], origins: Origins) -> None:
    if not isinstance(column, Column) or column.name not in origins:
        return
    if is_float(column.type) or (column.type in ("string", "binary") and op not in ("=", "in", "is null")):
        return  # databases have their own order of texts, and no NaN above all numbers
    values = []
    for constant in constants:
        plain = _constant(constant)
        if plain is None:
            return
        values.append(plain)
    scan, name = origins[column.name]
    scan.filters.append(Filter(name, op, tuple(values)))


def _constant(node: Node) -> object:
    """A constant as Python's value, or None if it is none."""
    if not isinstance(node, (Literal, Call)) or not is_constant(node):
        return None
    try:
        plain = value(node, {})
        if node.type == "date":
            return date(1970, 1, 1) + timedelta(days=plain)  # type: ignore[arg-type]
        if node.type == "timestamp":
            return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=plain)  # type: ignore[arg-type]
    except (RowError, KeyError, OverflowError, AssertionError, TypeError):
        return None
    return None if plain != plain else plain
