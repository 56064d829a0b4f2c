"""The types of arithmetic: + - * / % div and their functions, on numbers, and on dates and timestamps.

>>> from penstock.model.expressions.tree import Column
>>> ARITHMETIC["/"](Column("a", "int"), Column("b", "int"))
Call(name='divide', args=(Call(name='cast', args=(Column(name='a', type='int'),), type='double', safe=False), \
Call(name='cast', args=(Column(name='b', type='int'),), type='double', safe=False)), type='double', safe=False)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from penstock.model.expressions.coerce import (
    Outside,
    as_decimal,
    cast,
    common,
    decimal,
    is_decimal,
    narrow_literal,
)
from penstock.model.expressions.tree import INTERVAL, VOID, Call, Literal, Node
from penstock.model.types import is_float, is_integer, is_numeric


def _common_number(left: Node, right: Node, what: str) -> str:
    both = {left.type, right.type}
    if both <= {"string", VOID} or not all(is_numeric(kind) or kind in ("string", VOID) for kind in both):
        raise Outside(f"{what} of {left.type} and {right.type} is outside the kernel")
    common_kind = common(left.type, right.type)
    assert common_kind is not None
    return common_kind


def _numeric(name: str, symbol: str) -> Callable[..., Node]:
    """Addition, subtraction, multiplication or remainder of numbers, in their common type."""

    def rule(left: Node, right: Node, *, safe: bool = False) -> Node:
        left, right = narrow_literal(left, right), narrow_literal(right, left)
        kind = _common_number(left, right, symbol)
        if is_decimal(kind):
            return _decimal(name, left, right, safe)
        if is_float(kind) and name in ("remainder", "pmod"):
            raise Outside(f"{name} of floats is outside the kernel")
        return Call(name, (cast(left, kind), cast(right, kind)), kind, safe)

    return rule


def _decimal(name: str, left: Node, right: Node, safe: bool) -> Node:
    """Decimals keep all digits: the result is as wide as it can become, up to 38 digits."""
    (p1, s1), (p2, s2) = as_decimal(left.type), as_decimal(right.type)
    if name in ("add", "subtract"):
        kind = decimal(max(p1 - s1, p2 - s2) + max(s1, s2) + 1, max(s1, s2))
    elif name == "multiply":
        kind = decimal(p1 + p2 + 1, s1 + s2)
    else:
        raise Outside(f"{name.replace('_', ' ')} of decimals is outside the kernel")
    return Call(name, (cast(left, f"decimal({p1},{s1})"), cast(right, f"decimal({p2},{s2})")), kind, safe)


def _divide(left: Node, right: Node, *, safe: bool = False) -> Node:
    if is_decimal(_common_number(left, right, "/")):
        raise Outside("division of decimals is outside the kernel")
    return Call("divide", (cast(left, "double"), cast(right, "double")), "double", safe)


def _int_divide(left: Node, right: Node) -> Node:
    kinds = [kind for kind in (left.type, right.type) if kind != VOID]
    if not any(map(is_integer, kinds)) or not all(is_integer(kind) or kind == "string" for kind in kinds):
        raise Outside(f"div of {left.type} and {right.type} is outside the kernel")
    return Call("int_divide", (cast(left, "bigint"), cast(right, "bigint")), "bigint")


_add_numbers, _subtract_numbers = _numeric("add", "+"), _numeric("subtract", "-")


def _add(left: Node, right: Node, *, safe: bool = False) -> Node:
    if right.type in ("date", "timestamp") and left.type not in ("date", "timestamp"):
        left, right = right, left
    if left.type in ("date", "timestamp", INTERVAL) or right.type == INTERVAL:
        return _shift(left, right, "add", safe)
    return _add_numbers(left, right, safe=safe)


def _subtract(left: Node, right: Node, *, safe: bool = False) -> Node:
    if left.type in ("date", "timestamp", INTERVAL) or right.type == INTERVAL:
        return _shift(left, right, "subtract", safe)
    return _subtract_numbers(left, right, safe=safe)


def _shift(left: Node, right: Node, name: str, safe: bool) -> Node:
    """A date or timestamp and an interval, or a date and a number of days."""
    if left.type == "date" and right.type in ("tinyint", "smallint", "int") and not safe:
        return Call("date_" + name, (left, cast(right, "int")), "date")
    if right.type != INTERVAL or not isinstance(right, Literal):
        raise Outside(f"{name} of {left.type} and {right.type} is outside the kernel")
    if left.type == "timestamp":
        return Call("timestamp_" + name, (left, Literal(right.value, "bigint")), "timestamp", safe)
    if left.type == INTERVAL and isinstance(left, Literal) and isinstance(left.value, int):
        assert isinstance(right.value, int)
        return Literal(left.value + (right.value if name == "add" else -right.value), INTERVAL)
    raise Outside(f"{name} of {left.type} and an interval is outside the kernel")


def negative(node: Node) -> Node:
    """Unary minus."""
    if isinstance(node, Literal) and node.type == INTERVAL and isinstance(node.value, int):
        return Literal(-node.value, INTERVAL)
    return unary("negative", node)


def unary(name: str, node: Node) -> Node:
    """A function of a number that keeps its type."""
    if node.type in ("string", VOID):
        node = cast(node, "double")
    if not is_numeric(node.type):
        raise Outside(f"{name} of {node.type} is outside the kernel")
    return Call(name, (node,), node.type)


def _safe(rule: Callable[..., Node]) -> Callable[..., Node]:
    return lambda left, right: rule(left, right, safe=True)


_multiply, _remainder, _pmod = _numeric("multiply", "*"), _numeric("remainder", "%"), _numeric("pmod", "pmod")
#: By operator, and by the name of the function.
ARITHMETIC: Final[dict[str, Callable[..., Node]]] = {
    "+": _add, "-": _subtract, "*": _multiply, "/": _divide, "%": _remainder, "div": _int_divide,
    "mod": _remainder, "pmod": _pmod, "negative": negative, "positive": lambda node: unary("positive", node),
    "try_add": _safe(_add), "try_subtract": _safe(_subtract), "try_multiply": _safe(_multiply),
    "try_divide": _safe(_divide), "try_mod": _safe(_remainder),
}  # fmt: skip
