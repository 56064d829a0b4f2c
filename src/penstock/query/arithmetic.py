"""Arithmetic of questions: what the rules of expressions leave to Spark, with Spark's types.

Decimals of any width, their division, and intervals: of days, of time, and of months.

>>> from penstock.model.expressions.tree import Column
>>> divide(Column("a", "decimal(10,2)"), Column("b", "decimal(10,2)")).type
'decimal(23,13)'
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from penstock.model.expressions.arithmetic import ARITHMETIC, unary
from penstock.model.expressions.calendar import DAY
from penstock.model.expressions.coerce import Outside, as_decimal, cast, common, is_decimal, narrow_literal
from penstock.model.expressions.functions import Rule
from penstock.model.expressions.tree import INTERVAL, VOID, Call, Literal, Node
from penstock.model.types import is_float, is_integer, is_numeric

#: Intervals: of whole days, of months, and (`INTERVAL`) of time in microseconds.
DAYS, MONTHS = "interval day", "interval month"
INTERVALS = (INTERVAL, DAYS, MONTHS)
_TIMES = ("date", "timestamp")


def bounded(precision: int, scale: int) -> str:
    """The type of a decimal result; beyond 38 digits it gives up digits behind the point, but keeps six."""
    if precision > 38:
        precision, scale = 38, max(38 - (precision - scale), min(scale, 6))
    return f"decimal({precision},{scale})"


def _number(left: Node, right: Node, symbol: str) -> str:
    kinds = {left.type, right.type}
    if kinds <= {"string", VOID} or not all(is_numeric(kind) or kind in ("string", VOID) for kind in kinds):
        raise Outside(f"{left.type} {symbol} {right.type} is not supported")
    if is_decimal(left.type) and not (is_float(right.type) or right.type in ("string", VOID)):
        return left.type
    if is_decimal(right.type) and not (is_float(left.type) or left.type in ("string", VOID)):
        return right.type
    kind = common(left.type, right.type)
    assert kind is not None
    return kind


def _decimals(name: str, left: Node, right: Node, safe: bool) -> Node:
    (p1, s1), (p2, s2) = as_decimal(left.type), as_decimal(right.type)
    scale = max(s1, s2)
    match name:
        case "add" | "subtract":
            kind = bounded(max(p1 - s1, p2 - s2) + scale + 1, scale)
        case "multiply":
            kind = bounded(p1 + p2 + 1, s1 + s2)
        case "divide":
            scale = max(6, s1 + p2 + 1)
            kind = bounded(p1 - s1 + s2 + scale, scale)
        case _:
            kind = bounded(min(p1 - s1, p2 - s2) + scale, scale)
    return Call(name, (cast(left, f"decimal({p1},{s1})"), cast(right, f"decimal({p2},{s2})")), kind, safe)


def _numeric(name: str, symbol: str) -> Rule:
    def rule(left: Node, right: Node, *, safe: bool = False) -> Node:
        left, right = narrow_literal(left, right), narrow_literal(right, left)
        kind = _number(left, right, symbol)
        if is_decimal(kind):
            return _decimals(name, left, right, safe)
        return Call(name, (cast(left, kind), cast(right, kind)), kind, safe)

    return rule


_add_numbers, _subtract_numbers = _numeric("add", "+"), _numeric("subtract", "-")
_multiply_numbers, _remainder, _pmod = _numeric("multiply", "*"), _numeric("remainder", "%"), _numeric("pmod", "pmod")


def divide(left: Node, right: Node, *, safe: bool = False) -> Node:
    """Decimals stay decimals; all other numbers are divided as doubles."""
    left, right = narrow_literal(left, right), narrow_literal(right, left)
    if is_decimal(_number(left, right, "/")):
        return _decimals("divide", left, right, safe)
    return Call("divide", (cast(left, "double"), cast(right, "double")), "double", safe)


def _int_divide(left: Node, right: Node) -> Node:
    if is_decimal(left.type) or is_decimal(right.type):
        left, right = narrow_literal(left, right), narrow_literal(right, left)
        if not is_decimal(_number(left, right, "div")):
            raise Outside(f"{left.type} div {right.type} is not supported")
        (p1, s1), (p2, s2) = as_decimal(left.type), as_decimal(right.type)
        args = cast(left, f"decimal({p1},{s1})"), cast(right, f"decimal({p2},{s2})")
        return Call("int_divide", args, "bigint")
    return ARITHMETIC["div"](left, right)


def add(left: Node, right: Node, *, safe: bool = False) -> Node:
    """+ of numbers, of a time and an interval, of a date and days."""
    if right.type in _TIMES and left.type not in _TIMES:
        left, right = right, left
    if left.type in (*_TIMES, *INTERVALS) or right.type in INTERVALS:
        return _shift(left, right, "add", safe)
    return _add_numbers(left, right, safe=safe)


def subtract(left: Node, right: Node, *, safe: bool = False) -> Node:
    """- of numbers, of a time and an interval, of a date and days, of two times."""
    if left.type in _TIMES or right.type in _TIMES:
        if left.type in (*_TIMES, "string") and right.type in _TIMES:
            if left.type == right.type == "date":
                return Call("days_between", (left, right), DAYS)
            return Call("time_between", (cast(left, "timestamp"), cast(right, "timestamp")), INTERVAL)
        if right.type == "string" and left.type == "timestamp":
            return Call("time_between", (left, cast(right, "timestamp")), INTERVAL)
    if left.type in (*_TIMES, *INTERVALS) or right.type in INTERVALS:
        return _shift(left, right, "subtract", safe)
    return _subtract_numbers(left, right, safe=safe)


def _shift(left: Node, right: Node, name: str, safe: bool) -> Node:
    if safe:
        raise Outside(f"try_{name} of {left.type} and {right.type} is not supported")
    if left.type in INTERVALS and right.type in INTERVALS:
        if MONTHS in (left.type, right.type) and left.type != right.type:
            raise Outside("an interval of months and one of days do not mix")
        return Call(
            name,
            (left, right),
            DAYS if left.type == right.type == DAYS else left.type if left.type == MONTHS else INTERVAL,
        )
    match left.type, right.type:
        case "date", ("tinyint" | "smallint" | "int"):
            return Call("date_" + name, (left, cast(right, "int")), "date")
        case "date", "interval day":
            return Call("date_shift", (left, right if name == "add" else negative(right)), "date")
        case (("date" | "timestamp"), "interval month"):
            return Call("month_shift", (left, right if name == "add" else negative(right)), left.type)
        case (("date" | "timestamp"), ("interval" | "interval day")):
            return Call("timestamp_" + name, (cast(left, "timestamp"), right), "timestamp")
        case "string", ("interval" | "interval day"):
            return Call("timestamp_" + name, (cast(left, "timestamp"), right), "timestamp")
    symbol = "+" if name == "add" else "-"
    raise Outside(f"{left.type} {symbol} {right.type} is not supported")


def multiply(left: Node, right: Node, *, safe: bool = False) -> Node:
    """* of numbers, and of an interval and a whole number."""
    if left.type in INTERVALS or right.type in INTERVALS:
        length, count = (left, right) if left.type in INTERVALS else (right, left)
        if not is_integer(count.type) or safe:
            raise Outside(f"{left.type} * {right.type} is not supported")
        if length.type == MONTHS:
            return Call("multiply", (length, cast(count, "int")), MONTHS)
        return Call("multiply", (length, cast(count, "bigint")), INTERVAL)
    return _multiply_numbers(left, right, safe=safe)


def negative(node: Node) -> Node:
    """Unary minus."""
    if node.type in INTERVALS:
        if isinstance(node, Literal) and isinstance(node.value, int):
            return Literal(-node.value, node.type)
        return Call("negative", (node,), node.type)
    return unary("negative", node)


def days(count: int) -> Literal:
    return Literal(count * DAY, DAYS)


def _safe(rule: Callable[..., Node]) -> Rule:
    return lambda left, right: rule(left, right, safe=True)


def _bits(name: str, symbol: str) -> Rule:
    def rule(left: Node, right: Node) -> Node:
        if not is_integer(left.type) or not is_integer(right.type):
            raise Outside(f"{left.type} {symbol} {right.type} is not supported")
        kind = common(left.type, right.type)
        assert kind is not None
        return Call(name, (cast(left, kind), cast(right, kind)), kind)

    return rule


def _bit_not(node: Node) -> Node:
    if not is_integer(node.type):
        raise Outside(f"~ of {node.type} is not supported")
    return Call("bit_not", (node,), node.type)


#: By operator, and by the name of the function.
RULES: Final[dict[str, Rule]] = {
    "+": add, "-": subtract, "*": multiply, "/": divide, "%": _remainder, "div": _int_divide,
    "&": _bits("bit_and", "&"), "|": _bits("bit_or", "|"), "^": _bits("bit_xor", "^"), "~": _bit_not,
    "mod": _remainder, "pmod": _pmod, "negative": negative, "positive": lambda node: unary("positive", node),
    "try_add": _safe(add), "try_subtract": _safe(subtract), "try_multiply": _safe(multiply),
    "try_divide": _safe(divide), "try_mod": _safe(_remainder),
}  # fmt: skip
