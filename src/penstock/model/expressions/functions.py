"""The functions of the subset by their names in Spark, each a rule from typed arguments to a typed call.

>>> from penstock.model.expressions.tree import Column
>>> FUNCTIONS["length"](Column("code", "int"))
Call(name='length', args=(Call(name='cast', args=(Column(name='code', type='int'),), type='string', safe=False),), \
type='int', safe=False)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from penstock.model.expressions.arithmetic import unary
from penstock.model.expressions.calendar import ALIASES, UNITS
from penstock.model.expressions.coerce import Outside, cast, common_of, comparable, is_decimal
from penstock.model.expressions.patterns import like, rlike
from penstock.model.expressions.tree import VOID, Call, Literal, Node, is_constant
from penstock.model.types import INTEGERS, is_float, is_integer, is_nested, is_numeric

Rule = Callable[..., Node]
_BLANK, _NOTHING = Literal(" ", "string"), Literal("", "string")
_ZERO, _FIRST = Literal(0, "int"), Literal(1, "int")
#: What Spark takes where a parameter has a type: it casts, unless the value is of quite another kind.
_ACCEPTS: Final[dict[str, Callable[[str], bool]]] = {
    "string": lambda kind: kind != "binary",
    "int": lambda kind: is_numeric(kind) or kind == "string",
    "double": lambda kind: is_numeric(kind) or kind == "string",
    "date": lambda kind: kind in ("date", "timestamp", "string"),
    "timestamp": lambda kind: kind in ("date", "timestamp", "string"),
    "days": lambda kind: kind in ("tinyint", "smallint", "int"),
    "exact bigint": is_integer,
    "exact timestamp": lambda kind: kind == "timestamp",
    "exact date": lambda kind: kind == "date",
}
_CAST_TO = {"days": "int", "exact bigint": "bigint", "exact timestamp": "timestamp", "exact date": "date"}


def take(name: str, node: Node, parameter: str) -> Node:
    """An argument in the type of its parameter."""
    if node.type != VOID and (not _ACCEPTS[parameter](node.type) or is_nested(node.type)):
        raise Outside(f"{name} of {node.type} is outside the kernel")
    return cast(node, _CAST_TO.get(parameter, parameter))


def fixed(name: str, result: str, *parameters: str, optional: int = 0) -> Rule:
    """A function whose parameters and result have fixed types; the last `optional` may be left out."""

    def rule(*args: Node) -> Node:
        if not len(parameters) - optional <= len(args) <= len(parameters):
            raise Outside(f"{name} of {len(args)} arguments is outside the kernel")
        arguments = tuple(take(name, arg, parameter) for arg, parameter in zip(args, parameters, strict=False))
        return Call(name, arguments, result)

    return rule


def _concat(*args: Node) -> Node:
    if any(is_nested(arg.type) or arg.type == "binary" for arg in args):
        raise Outside("concat is outside the kernel")
    return Call("concat", tuple(cast(arg, "string") for arg in args), "string") if args else Literal("", "string")


def _concat_ws(separator: Node, *args: Node) -> Node:
    return Call("concat_ws", tuple(take("concat_ws", arg, "string") for arg in (separator, *args)), "string")


def _trim(name: str) -> Rule:
    """ltrim(text) or ltrim(characters, text): the characters come first."""

    def rule(first: Node, second: Node | None = None) -> Node:
        text, chars = (first, _BLANK) if second is None else (second, first)
        return Call(name, (take(name, text, "string"), take(name, chars, "string")), "string")

    return rule


def _pad(name: str) -> Rule:
    def rule(text: Node, width: Node, fill: Node = _BLANK) -> Node:
        arguments = (take(name, text, "string"), take(name, width, "int"), take(name, fill, "string"))
        return Call(name, arguments, "string")

    return rule


def _replace(text: Node, old: Node, new: Node = _NOTHING) -> Node:
    if not isinstance(old, Literal) or old.value is None:
        raise Outside("replace of a text that is not a constant is outside the kernel")
    return fixed("replace", "string", "string", "string", "string")(text, old, new)


def _coalesce(*args: Node) -> Node:
    kind = common_of(args, "coalesce")
    if not args or kind == VOID:
        raise Outside("coalesce of nothing is outside the kernel")
    return Call("coalesce", tuple(cast(arg, kind) for arg in args), kind)


def _nvl(first: Node, second: Node) -> Node:
    return _coalesce(first, second)


def _nullif(first: Node, second: Node) -> Node:
    """The type is that of the first argument, before any coercion."""
    if first.type == VOID:
        raise Outside("nullif of NULL is outside the kernel")
    same = Call("eq", comparable(first, second, "nullif"), "boolean")
    return Call("case", (same, Literal(None, first.type), first), first.type)


def _nvl2(test: Node, present: Node, absent: Node) -> Node:
    kind = common_of((present, absent), "nvl2")
    missing = Call("is_null", (test,), "boolean")
    return Call("case", (missing, cast(absent, kind), cast(present, kind)), kind)


def _extreme(name: str) -> Rule:
    def rule(*args: Node) -> Node:
        if len(args) < 2:
            raise Outside(f"{name} of one argument is outside the kernel")
        kind = common_of(args, name, strings=False)
        if kind == VOID or is_nested(kind):
            raise Outside(f"{name} of {kind} is outside the kernel")
        return Call(name, tuple(cast(arg, kind) for arg in args), kind)

    return rule


def _whole(name: str) -> Rule:
    """ceil and floor: to bigint; whole numbers stay what they are."""

    def rule(node: Node) -> Node:
        if is_decimal(node.type):
            raise Outside(f"{name} of decimals is outside the kernel")
        if is_integer(node.type):
            return cast(node, "bigint")
        return Call(name, (take(name, node, "double"),), "bigint")

    return rule


def _round(node: Node, places: Node = _ZERO) -> Node:
    if node.type in ("string", VOID):
        node = cast(node, "double")
    if not isinstance(places, Literal) or not isinstance(places.value, int) or not is_integer(places.type):
        raise Outside("round to places that are no whole constant is outside the kernel")
    if is_integer(node.type) and places.value >= 0:
        return node
    if node.type != "double" or not 0 <= places.value <= 15:
        raise Outside(f"round of {node.type} to {places.value} places is outside the kernel")
    return Call("round", (node, places), "double")


def _log(first: Node, second: Node | None = None) -> Node:
    """log(x) is natural, log(base, x) is not."""
    if second is None:
        return FUNCTIONS["ln"](first)
    return Call("log", (take("log", first, "double"), take("log", second, "double")), "double")


def _isnan(node: Node) -> Node:
    return Call("is_nan", (node if is_float(node.type) else take("isnan", node, "double"),), "boolean")


def _nanvl(first: Node, second: Node) -> Node:
    kind = "float" if first.type == second.type == "float" else "double"
    first, second = take("nanvl", first, "double"), take("nanvl", second, "double")
    if kind == "float":
        raise Outside("nanvl of floats is outside the kernel")
    return Call("nanvl", (first, second), kind)


def _date_trunc(unit: Node, node: Node) -> Node:
    name = _unit(unit, "date_trunc")
    if name not in (*UNITS, "WEEK", "MONTH", "QUARTER", "YEAR"):
        raise Outside(f"date_trunc to {name} is outside the kernel")
    return Call("date_trunc", (Literal(name, "string"), take("date_trunc", node, "timestamp")), "timestamp")


def _trunc(node: Node, unit: Node) -> Node:
    name = _unit(unit, "trunc")
    if name not in ("WEEK", "MONTH", "QUARTER", "YEAR"):
        raise Outside(f"trunc to {name} is outside the kernel")
    return Call("trunc", (take("trunc", node, "date"), Literal(name, "string")), "date")


def _unit(unit: Node, what: str) -> str:
    if not isinstance(unit, Literal) or unit.type != "string":
        raise Outside(f"{what} to a unit that is not a constant is outside the kernel")
    name = str(unit.value).upper()
    return ALIASES.get(name, name) if not name.endswith("S") else name


def _clock(name: str) -> Rule:
    return fixed(name, "int", "timestamp")


def _unix_timestamp(node: Node) -> Node:
    if node.type not in ("date", "timestamp"):
        raise Outside(f"unix_timestamp of {node.type} is outside the kernel")
    return Call("unix_timestamp", (cast(node, "timestamp"),), "bigint")


def _cast_function(kind: str) -> Rule:
    return lambda node: cast(node, kind)


def _locate(part: Node, text: Node, start: Node = _FIRST) -> Node:
    """A null start gives 0 in Spark, which no other null does: a start must be a constant."""
    if not isinstance(start, Literal) or start.value is None:
        raise Outside("locate from a start that is not a constant is outside the kernel")
    if is_constant(text) and not is_constant(part):
        raise Outside("locate within a constant is outside the kernel")
    return fixed("locate", "int", "string", "string", "int")(part, text, start)


_substring = fixed("substring", "string", "string", "int", "int", optional=1)
_day = fixed("day", "int", "date")
FUNCTIONS: Final[dict[str, Rule]] = {
    # text
    "concat": _concat, "concat_ws": _concat_ws,
    "upper": fixed("upper", "string", "string"), "ucase": fixed("upper", "string", "string"),
    "lower": fixed("lower", "string", "string"), "lcase": fixed("lower", "string", "string"),
    "trim": _trim("trim"), "ltrim": _trim("ltrim"), "rtrim": _trim("rtrim"),
    "btrim": lambda text, *chars: _trim("trim")(*chars, text),
    "length": fixed("length", "int", "string"), "len": fixed("length", "int", "string"),
    "char_length": fixed("length", "int", "string"), "character_length": fixed("length", "int", "string"),
    "substring": _substring, "substr": _substring,
    "left": fixed("left", "string", "string", "int"), "right": fixed("right", "string", "string", "int"),
    "replace": _replace,
    "startswith": fixed("startswith", "boolean", "string", "string"),
    "endswith": fixed("endswith", "boolean", "string", "string"),
    "contains": fixed("contains", "boolean", "string", "string"),
    "locate": _locate, "position": _locate, "instr": lambda text, part: _locate(part, text),
    "lpad": _pad("lpad"), "rpad": _pad("rpad"),
    "repeat": fixed("repeat", "string", "string", "int"), "reverse": fixed("reverse", "string", "string"),
    "split_part": fixed("split_part", "string", "string", "string", "int"),
    "like": lambda value, pattern: like(value, pattern, "\\", fold=False),
    "ilike": lambda value, pattern: like(value, pattern, "\\", fold=True),
    "rlike": rlike, "regexp": rlike, "regexp_like": rlike,
    # choice
    "coalesce": _coalesce, "nvl": _nvl, "ifnull": _nvl, "nullif": _nullif, "nvl2": _nvl2,
    "greatest": _extreme("greatest"), "least": _extreme("least"),
    "equal_null": lambda left, right: Call("same", comparable(left, right, "comparison"), "boolean"),
    "isnull": lambda node: Call("is_null", (node,), "boolean"),
    "isnotnull": lambda node: Call("not", (Call("is_null", (node,), "boolean"),), "boolean"),
    # numbers
    "abs": lambda node: unary("abs", node), "ceil": _whole("ceil"), "ceiling": _whole("ceil"), "floor": _whole("floor"),
    "round": _round, "log": _log, "isnan": _isnan, "nanvl": _nanvl,
    **{name: fixed(name, "double", "double") for name in ("sqrt", "exp", "ln", "log10", "log2", "sign")},
    "signum": fixed("sign", "double", "double"),
    "pow": fixed("pow", "double", "double", "double"), "power": fixed("pow", "double", "double", "double"),
    # time
    "date_trunc": _date_trunc, "trunc": _trunc, "to_date": lambda node: cast(take("to_date", node, "date"), "date"),
    "day": _day, "dayofmonth": _day,
    **{name: fixed(name, "int", "date") for name in
       ("year", "month", "quarter", "dayofyear", "dayofweek", "weekday", "weekofyear")},
    "hour": _clock("hour"), "minute": _clock("minute"), "second": _clock("second"),
    "date_add": fixed("date_add", "date", "date", "days"), "dateadd": fixed("date_add", "date", "date", "days"),
    "date_sub": fixed("date_subtract", "date", "date", "days"),
    "datediff": fixed("date_diff", "int", "date", "date"), "date_diff": fixed("date_diff", "int", "date", "date"),
    "unix_timestamp": _unix_timestamp, "to_unix_timestamp": _unix_timestamp,
    "unix_date": fixed("unix_date", "int", "exact date"),
    **{name: fixed(name, "bigint", "exact timestamp") for name in ("unix_micros", "unix_millis", "unix_seconds")},
    **{name: fixed(name, "timestamp", "exact bigint") for name in
       ("timestamp_micros", "timestamp_millis", "timestamp_seconds")},
    # casts
    **{kind: _cast_function(kind) for kind in (*INTEGERS, "float", "double", "boolean", "string", "date", "timestamp")},
}  # fmt: skip
