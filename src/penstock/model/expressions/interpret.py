"""The interpreter of typed trees: values in, value out, argument by argument in Spark's order.

>>> value(Call("add", (Column("a", "int"), Literal(1, "int")), "int"), {"a": 41})
42
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TypeAlias

from penstock.errors import RowError
from penstock.model.expressions.order import order
from penstock.model.expressions.tree import Call, Column, Literal, Node
from penstock.model.expressions.values import VALUES, same

Row: TypeAlias = Mapping[str, object]


def value(node: Node, row: Row) -> object:
    """The value of a node on a row."""
    match node:
        case Column(name=name):
            return row[name]
        case Literal(value=constant):
            return constant
        case Call():
            return _call(node, row)


def _call(call: Call, row: Row) -> object:
    how = order(call.name)
    if how == "lazy":
        return _LAZY[call.name](call, row)
    args: list[object] = []
    if how == "eager":
        args = [value(arg, row) for arg in call.args]
    else:
        for arg in reversed(call.args) if how == "reversed" else call.args:
            args.append(value(arg, row))
            if args[-1] is None or (how == "reversed" and call.safe and len(args) == 1 and args[-1] == 0):
                return None
        if how == "reversed":
            args.reverse()
    try:
        return VALUES[call.name](call, *args)
    except RowError:
        if call.safe:
            return None
        raise


def _and(call: Call, row: Row) -> object:
    left = value(call.args[0], row)
    if left is False:
        return False
    right = value(call.args[1], row)
    return False if right is False else None if left is None or right is None else True


def _or(call: Call, row: Row) -> object:
    left = value(call.args[0], row)
    if left is True:
        return True
    right = value(call.args[1], row)
    return True if right is True else None if left is None or right is None else False


def _case(call: Call, row: Row) -> object:
    *branches, default = call.args
    for condition, result in zip(branches[::2], branches[1::2], strict=True):
        if value(condition, row) is True:
            return value(result, row)
    return value(default, row)


def _coalesce(call: Call, row: Row) -> object:
    for arg in call.args:
        result = value(arg, row)
        if result is not None:
            return result
    return None


def _in(call: Call, row: Row) -> object:
    wanted = value(call.args[0], row)
    if wanted is None:
        return None
    unknown = False
    for arg in call.args[1:]:
        other = value(arg, row)
        if other is None:
            unknown = True
        elif same(wanted, other):
            return True
    return None if unknown else False


def _nanvl(call: Call, row: Row) -> object:
    first = value(call.args[0], row)
    return value(call.args[1], row) if isinstance(first, float) and math.isnan(first) else first


_LAZY = {"and": _and, "or": _or, "case": _case, "coalesce": _coalesce, "in": _in, "nanvl": _nanvl}
