"""Computes the constant parts of a tree once, and drops the parts that no row can reach.

>>> from penstock.model.expressions.tree import Column
>>> fold(Call("coalesce", (Call("upper", (Literal("a", "string"),), "string"), Column("c", "string")), "string"))
Literal(value='A', type='string')
"""

from __future__ import annotations

import math

from penstock.errors import RowError
from penstock.model.expressions.interpret import value
from penstock.model.expressions.tree import Call, Literal, Node


def fold(node: Node) -> Node:
    """The same tree, shorter. A constant part that fails stays, to fail on the rows that reach it."""
    if not isinstance(node, Call):
        return node
    call = Call(node.name, tuple(fold(arg) for arg in node.args), node.type, node.safe)
    if all(isinstance(arg, Literal) for arg in call.args):
        try:
            return Literal(value(call, {}), call.type)
        except RowError:
            return call
    return _REACHED[call.name](call) if call.name in _REACHED else call


def _case(call: Call) -> Node:
    *branches, default = call.args
    reachable: list[Node] = []
    for condition, result in zip(branches[::2], branches[1::2], strict=True):
        if not isinstance(condition, Literal):
            reachable += condition, result
        elif condition.value is True:
            default = result
            break
    return Call("case", (*reachable, default), call.type) if reachable else default


def _coalesce(call: Call) -> Node:
    args_left: list[Node] = []
    for arg in call.args:
        if isinstance(arg, Literal) and arg.value is None:
            continue
        args_left.append(arg)
        if isinstance(arg, Literal):
            break
    return args_left[0] if len(args_left) == 1 else Call("coalesce", tuple(args_left), call.type)


def _and_or(call: Call) -> Node:
    left, right = call.args
    if isinstance(left, Literal) and left.value is not None:
        return left if left.value is (call.name == "or") else right
    return call


def _nanvl(call: Call) -> Node:
    first, second = call.args
    if not isinstance(first, Literal):
        return call
    return second if isinstance(first.value, float) and math.isnan(first.value) else first


_REACHED = {"case": _case, "coalesce": _coalesce, "and": _and_or, "or": _and_or, "nanvl": _nanvl}
