"""Spark's ANSI coercion: the type that two types have in common, and the casts that take values there.

>>> common("int", "decimal(2,1)"), common("int", "float"), common("date", "timestamp"), common("int", "date")
('decimal(11,1)', 'double', 'timestamp', None)
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal

from penstock.model.expressions.tree import INTERVAL, VOID, Call, Literal, Node
from penstock.model.types import INTEGERS, decimal_of, has_structs, is_float, is_integer, is_numeric

#: The digits of the widest value of each whole type, as a decimal.
_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 20}


class Outside(Exception):
    """What the kernel does not do; Spark may."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def is_decimal(kind: str) -> bool:
    return kind.startswith("decimal(")


def decimal(precision: int, scale: int) -> str:
    """The type of a decimal result. Where Spark would begin to cut digits off, the kernel stops."""
    if precision > 38:
        raise Outside(f"a decimal of {precision} digits is outside the kernel")
    return f"decimal({precision},{scale})"


def as_decimal(kind: str) -> tuple[int, int]:
    """Precision and scale of a decimal that holds every value of a whole or decimal type."""
    return (_DIGITS[kind], 0) if is_integer(kind) else decimal_of(kind)


def common(left: str, right: str, *, strings: bool = True) -> str | None:
    """The type that values of both types are brought to before they are compared or mixed; None if there is none."""
    if left == right or right == VOID:
        return left
    if left == VOID:
        return right
    if is_numeric(left) and is_numeric(right):
        if is_integer(left) and is_integer(right):
            return max(left, right, key=lambda kind: INTEGERS[kind])
        if is_float(left) or is_float(right):
            return "double"
        (p1, s1), (p2, s2) = as_decimal(left), as_decimal(right)
        return decimal(max(p1 - s1, p2 - s2) + max(s1, s2), max(s1, s2))
    if {left, right} == {"date", "timestamp"}:
        return "timestamp"
    if strings and "string" in (left, right):
        other = left if right == "string" else right
        if is_integer(other):
            return "bigint"
        if is_numeric(other):
            return "double"
        return other if other in ("boolean", "date", "timestamp", "binary") else None
    return None


def common_of(nodes: Iterable[Node], what: str, *, strings: bool = True) -> str:
    """The common type of several values."""
    kinds = [node.type for node in nodes]
    distinct = {kind for kind in kinds if kind != VOID}
    if "string" in distinct and len(distinct) > 2:
        raise Outside(f"{what} of strings and several other types is outside the kernel")
    shared: str | None = VOID
    for kind in kinds:
        shared = None if shared is None else common(shared, kind, strings=strings)
    if shared is None or shared == INTERVAL:
        raise Outside(f"{what} of {' and '.join(sorted(distinct))} is outside the kernel")
    return shared


def narrow_literal(node: Node, other: Node) -> Node:
    """Next to a decimal, Spark types a whole literal by its own digits: in `amount + 1` the 1 is a decimal(1,0)."""
    if isinstance(node, Literal) and is_integer(node.type) and is_decimal(other.type) and isinstance(node.value, int):
        return Literal(Decimal(node.value), f"decimal({len(str(abs(node.value)))},0)")
    return node


def comparable(left: Node, right: Node, what: str) -> tuple[Node, Node]:
    """Both sides of a comparison, in their common type."""
    left, right = narrow_literal(left, right), narrow_literal(right, left)
    kind = common_of((left, right), what)
    if has_structs(kind):
        raise Outside(f"{what} of {kind} is outside the kernel")
    return cast(left, kind), cast(right, kind)


def cast(node: Node, kind: str, *, safe: bool = False) -> Node:
    """The node as a value of another type; a cast of a constant that succeeds is done here, once."""
    if node.type == kind:
        return node
    if node.type == VOID or (isinstance(node, Literal) and node.value is None):
        return Literal(None, kind)
    from penstock.model.expressions.casts import check_cast, fold_cast  # casts build on the types of this module

    check_cast(node, kind)
    call = Call("cast", (node,), kind, safe)
    return fold_cast(call) if isinstance(node, Literal) else call
