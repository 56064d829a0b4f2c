"""The functions of one row that a question may call: those of expressions, and those that only questions have.

Each is a rule from typed arguments to a typed call. `docs/sql.md` and the error for an unknown function list them.

>>> from penstock.model.expressions.tree import Column
>>> FUNCTIONS["typeof"](Column("price", "decimal(10,2)"))
Literal(value='decimal(10,2)', type='string')
"""

from __future__ import annotations

from typing import Final

from penstock.model.expressions import functions as rows
from penstock.model.expressions.calendar import ALIASES, UNITS
from penstock.model.expressions.coerce import Outside, cast, common_of, comparable, is_decimal
from penstock.model.expressions.functions import Rule
from penstock.model.expressions.patterns import java_regex
from penstock.model.expressions.tree import INTERVAL, VOID, Call, Literal, Node
from penstock.model.types import decimal_of, is_float, is_integer, is_numeric, type_name
from penstock.query import arithmetic
from penstock.query.arithmetic import DAYS, MONTHS
from penstock.query.formats import check_format

take, fixed = rows.take, rows.fixed
_ZERO, _ONE, _YES, _NOTHING = Literal(0, "int"), Literal(1, "int"), Literal(True, "boolean"), Literal("", "string")
_PATTERN = Literal("yyyy-MM-dd HH:mm:ss", "string")
_LENGTHS = {**UNITS, "WEEK": 7 * UNITS["DAY"]}
_MONTHS = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}


def _whole(name: str) -> Rule:
    """ceil and floor."""

    def rule(node: Node) -> Node:
        if is_decimal(node.type):
            precision, scale = decimal_of(node.type)
            return node if scale == 0 else Call(name, (node,), f"decimal({min(precision - scale + 1, 38)},0)")
        return rows.FUNCTIONS[name](node)

    return rule


def _round(node: Node, places: Node = _ZERO) -> Node:
    if node.type in ("string", VOID):
        node = cast(node, "double")
    if not isinstance(places, Literal) or not isinstance(places.value, int) or not is_integer(places.type):
        raise Outside("round needs a constant number of places")
    count = places.value
    if is_decimal(node.type):
        precision, scale = decimal_of(node.type)
        digits = precision - scale + 1
        if count < 0:
            return Call("round", (node, places), f"decimal({min(max(digits, 1 - count), 38)},0)")
        return Call("round", (node, places), f"decimal({min(digits + min(count, scale), 38)},{min(count, scale)})")
    if is_integer(node.type):
        return node if count >= 0 else Call("round", (node, places), node.type)
    if node.type != "double" or not -300 <= count <= 300:
        raise Outside(f"round of {node.type} to {count} places is not supported")
    return Call("round", (node, places), "double")


def _extreme(name: str) -> Rule:
    def rule(*args: Node) -> Node:
        if any(arg.type.startswith(("struct<", "map<")) or arg.type in arithmetic.INTERVALS for arg in args):
            raise Outside(f"{name} of {args[0].type} is not supported")
        return rows.FUNCTIONS[name](*args)

    return rule


def _typeof(node: Node) -> Node:
    if node.type == INTERVAL:
        raise Outside("typeof of an interval is not supported")
    return Literal(node.type, "string")


def _hex(node: Node) -> Node:
    if is_integer(node.type):
        return Call("hex", (cast(node, "bigint"),), "string")
    if node.type not in ("string", "binary"):
        raise Outside(f"hex of {node.type} is not supported")
    return Call("hex", (cast(node, "binary"),), "string")


def _digest(name: str) -> Rule:
    def rule(node: Node) -> Node:
        if node.type not in ("string", "binary"):
            raise Outside(f"{name} of {node.type} is not supported")
        return Call(name, (cast(node, "binary"),), "string")

    return rule


def _byte_length(factor: int) -> Rule:
    def rule(node: Node) -> Node:
        if node.type != "binary":
            node = cast(take("octet_length", node, "string"), "binary")
        return Call("octet_length", (node, Literal(factor, "int")), "int")

    return rule


def _length(node: Node) -> Node:
    return (
        Call("octet_length", (node, Literal(1, "int")), "int")
        if node.type == "binary"
        else rows.FUNCTIONS["length"](node)
    )


def _replace(text: Node, old: Node, new: Node = _NOTHING) -> Node:
    return fixed("replace", "string", "string", "string", "string")(text, old, new)


def _locate(part: Node, text: Node, start: Node = _ONE) -> Node:
    if not isinstance(start, Literal) or start.value is None:
        raise Outside("locate needs a constant start")
    return fixed("locate", "int", "string", "string", "int")(part, text, start)


def _regexp_replace(text: Node, pattern: Node, new: Node) -> Node:
    if not isinstance(pattern, Literal) or not isinstance(pattern.value, str):
        raise Outside("regexp_replace needs a constant pattern")
    if not isinstance(new, Literal) or not isinstance(new.value, str) or set(new.value) & set("\\$"):
        raise Outside("regexp_replace needs a constant replacement without groups")
    regex = java_regex(pattern.value)
    if pattern.value.endswith("$"):
        raise Outside("regexp_replace at the end of a text is not supported")
    return Call("regexp_replace", (take("regexp_replace", text, "string"), Literal(regex, "string"), new), "string")


# Times


def _unit(node: Node, what: str) -> str:
    if not isinstance(node, Literal) or not isinstance(node.value, str):
        raise Outside(f"{what} needs a constant unit")
    name = node.value.upper()
    return ALIASES.get(name, name)


def part(name: str, node: Node) -> Node:
    """EXTRACT(name FROM node)."""
    field = _PARTS.get(name.upper())
    if field is None:
        raise Outside(
            f"EXTRACT has no field {name.upper()}",
        )
    if field == "second":
        return Call("second_exact", (take("extract", node, "timestamp"),), "decimal(8,6)")
    if field in ("dayofweek_iso", "yearofweek"):
        return Call(field, (take("extract", node, "date"),), "int")
    return rows.FUNCTIONS[field](node)


_PARTS: Final = {
    **dict.fromkeys(("YEAR", "Y", "YEARS", "YR", "YRS"), "year"), **dict.fromkeys(("QUARTER", "QTR"), "quarter"),
    **dict.fromkeys(("MONTH", "MON", "MONS", "MONTHS"), "month"), **dict.fromkeys(("WEEK", "W", "WEEKS"), "weekofyear"),
    **dict.fromkeys(("DAY", "D", "DAYS"), "day"), **dict.fromkeys(("DAYOFWEEK", "DOW"), "dayofweek"),
    **dict.fromkeys(("DAYOFWEEK_ISO", "DOW_ISO"), "dayofweek_iso"), "DOY": "dayofyear",
    **dict.fromkeys(("HOUR", "H", "HOURS", "HR", "HRS"), "hour"), "YEAROFWEEK": "yearofweek",
    **dict.fromkeys(("MINUTE", "M", "MIN", "MINS", "MINUTES"), "minute"),
    **dict.fromkeys(("SECOND", "S", "SEC", "SECONDS", "SECS"), "second"),
}  # fmt: skip


def _date_part(unit: Node, node: Node) -> Node:
    return part(_unit(unit, "date_part"), node)


def _timestamp_add(unit: Node, count: Node, node: Node) -> Node:
    name = _unit(unit, "timestampadd")
    node, count = take("timestampadd", node, "timestamp"), take("timestampadd", count, "int")
    if name in _MONTHS:
        months = Call("multiply", (Literal(_MONTHS[name], MONTHS), count), MONTHS)
        return Call("month_shift", (node, months), "timestamp")
    if name not in _LENGTHS:
        raise Outside(f"timestampadd has no unit {name}")
    length = Call("multiply", (Literal(_LENGTHS[name], INTERVAL), cast(count, "bigint")), INTERVAL)
    return Call("timestamp_add", (node, length), "timestamp")


def _timestamp_diff(unit: Node, start: Node, end: Node) -> Node:
    name = _unit(unit, "timestampdiff")
    times = take("timestampdiff", start, "timestamp"), take("timestampdiff", end, "timestamp")
    if name in _MONTHS:
        return Call("months_elapsed", (*times, Literal(_MONTHS[name], "int")), "bigint")
    if name not in _LENGTHS:
        raise Outside(f"timestampdiff has no unit {name}")
    return Call("time_elapsed", (*times, Literal(_LENGTHS[name], "bigint")), "bigint")


def _date_add(*args: Node) -> Node:
    if len(args) == 3:
        return _timestamp_add(*args)
    return rows.FUNCTIONS["date_add"](*args)


def _date_diff(*args: Node) -> Node:
    if len(args) == 3:
        return _timestamp_diff(*args)
    return rows.FUNCTIONS["datediff"](*args)


def _add_months(node: Node, count: Node) -> Node:
    return Call("month_shift", (take("add_months", node, "date"), take("add_months", count, "int")), "date")


def _date_format(node: Node, pattern: Node) -> Node:
    node = take("date_format", node, "timestamp")
    if not isinstance(pattern, Literal) or not isinstance(pattern.value, str):
        raise Outside("date_format needs a constant pattern")
    check_format(pattern.value)
    return Call("date_format", (node, pattern), "string")


def _from_unixtime(node: Node, pattern: Node = _PATTERN) -> Node:
    return _date_format(Call("timestamp_seconds", (take("from_unixtime", node, "exact bigint"),), "timestamp"), pattern)


# Arrays


def element(kind: str, what: str) -> str:
    """The type of an array's elements."""
    if not kind.startswith("array<"):
        raise Outside(f"{what} of {kind} is not supported")
    return kind[6:-1]


def _array(*args: Node) -> Node:
    kind = common_of(args, "array")
    if not args or kind == VOID:
        raise Outside("an array of nothing has no type")
    return Call("array", tuple(cast(arg, kind) for arg in args), f"array<{kind}>")


def item(node: Node, index: Node) -> Node:
    """array[index], from 0 on; outside of the array it fails."""
    kind = element(node.type, "[ ]")
    if not is_integer(index.type):
        raise Outside(f"an index of {index.type} is not supported")
    return Call("item", (node, cast(index, "bigint")), kind)


def _element_at(node: Node, index: Node) -> Node:
    kind = element(node.type, "element_at")
    if index.type not in ("tinyint", "smallint", "int"):
        raise Outside(f"element_at at {index.type} is not supported")
    return Call("element_at", (node, cast(index, "bigint")), kind)


def _get(node: Node, index: Node) -> Node:
    call = item(node, index)
    assert isinstance(call, Call)
    return Call("item", call.args, call.type, safe=True)


def _size(node: Node) -> Node:
    element(node.type, "size")
    return Call("size", (node,), "int")


def _array_contains(node: Node, value: Node) -> Node:
    kind = element(node.type, "array_contains")
    if value.type == VOID or kind.startswith(("array<", "struct<", "map<")):
        raise Outside(f"array_contains of {value.type} in {node.type} is not supported")
    if value.type != kind:
        known = (
            is_integer(kind) and is_integer(value.type) and common_of((Literal(None, kind), value), "array_contains")
        )
        if known != kind:
            raise Outside(f"array_contains of {value.type} in {node.type} is not supported")
    return Call("array_contains", (node, cast(value, kind)), "boolean")


def _array_join(node: Node, separator: Node, null: Node | None = None) -> Node:
    if node.type != "array<string>":
        raise Outside(f"array_join of {node.type} is not supported")
    rest = () if null is None else (take("array_join", null, "string"),)
    return Call("array_join", (node, take("array_join", separator, "string"), *rest), "string")


def _sort_array(node: Node, ascending: Node = _YES) -> Node:
    if element(node.type, "sort_array").startswith(("array<", "struct<", "map<")):
        raise Outside(f"sort_array of {node.type} is not supported")
    if not isinstance(ascending, Literal) or not isinstance(ascending.value, bool):
        raise Outside("sort_array needs a constant order")
    return Call("sort_array", (node, ascending), node.type)


def _array_extreme(name: str) -> Rule:
    def rule(node: Node) -> Node:
        kind = element(node.type, name)
        if kind.startswith(("array<", "struct<", "map<")):
            raise Outside(f"{name} of {node.type} is not supported")
        return Call(name, (node,), kind)

    return rule


def _split(text: Node, pattern: Node) -> Node:
    """Only at a constant text: what a regular expression splits differs between engines."""
    if not isinstance(pattern, Literal) or not isinstance(pattern.value, str):
        raise Outside("split needs a constant pattern")
    plain = pattern.value.replace("\\", "") if len(pattern.value) == 2 and pattern.value[0] == "\\" else pattern.value
    if (
        not plain
        or (plain == pattern.value and set(plain) & set("\\.+*?()|[]{}^$"))
        or (plain.isalnum() and plain != pattern.value)
    ):
        raise Outside("split at a regular expression is not supported")
    return Call("split", (take("split", text, "string"), Literal(plain, "string")), "array<string>")


def _if(condition: Node, then: Node, otherwise: Node) -> Node:
    kind = common_of((then, otherwise), "if")
    if condition.type != "boolean":
        raise Outside("the condition of if must be boolean")
    return Call("case", (condition, cast(then, kind), cast(otherwise, kind)), kind)


def _pmod(left: Node, right: Node) -> Node:
    call = arithmetic.RULES["pmod"](left, right)
    if not is_integer(call.type):
        raise Outside(f"pmod of {call.type} is not supported")
    return call


def _nanvl(first: Node, second: Node) -> Node:
    if not (is_float(first.type) or is_float(second.type)) or not (is_numeric(first.type) and is_numeric(second.type)):
        raise Outside(f"nanvl of {first.type} and {second.type} is not supported")
    return rows.FUNCTIONS["nanvl"](first, second)


def _nullifzero(node: Node) -> Node:
    return Call(
        "case",
        (Call("eq", comparable(node, _ZERO, "nullifzero"), "boolean"), Literal(None, node.type), node),
        node.type,
    )


FUNCTIONS: Final[dict[str, Rule]] = {
    **rows.FUNCTIONS,
    **{name: rule for name, rule in arithmetic.RULES.items() if name.isidentifier() and name != "div"},
    # text
    "length": _length, "len": _length, "char_length": _length, "character_length": _length,
    "replace": _replace, "locate": _locate, "position": _locate, "instr": lambda text, part: _locate(part, text),
    "octet_length": _byte_length(1), "bit_length": _byte_length(8),
    "ascii": fixed("ascii", "int", "string"), "initcap": fixed("initcap", "string", "string"),
    "translate": fixed("translate", "string", "string", "string", "string"),
    "substring_index": fixed("substring_index", "string", "string", "string", "int"),
    "regexp_replace": _regexp_replace, "split": _split,
    "hex": _hex, "md5": _digest("md5"), "sha": _digest("sha1"), "sha1": _digest("sha1"),
    "space": lambda count: Call("repeat", (Literal(" ", "string"), take("space", count, "int")), "string"),
    # choice
    "if": _if, "typeof": _typeof, "nullifzero": _nullifzero,
    "zeroifnull": lambda node: rows.FUNCTIONS["coalesce"](node, _ZERO),
    "greatest": _extreme("greatest"), "least": _extreme("least"), "nanvl": _nanvl,
    # numbers
    "round": _round, "ceil": _whole("ceil"), "ceiling": _whole("ceil"), "floor": _whole("floor"), "pmod": _pmod,
    **{name: fixed(name, "double", "double") for name in
       ("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "degrees", "radians", "rint")},
    "atan2": fixed("atan2", "double", "double", "double"),
    "pi": lambda: Literal(3.141592653589793, "double"), "e": lambda: Literal(2.718281828459045, "double"),
    "bit_count": lambda node: Call("bit_count", (take("bit_count", node, "exact bigint"),), "int"),
    "decimal": lambda node: cast(node, type_name("decimal")),
    # time
    "date_part": _date_part, "datepart": _date_part, "timestampadd": _timestamp_add, "timestampdiff": _timestamp_diff,
    "date_add": _date_add, "dateadd": _date_add, "datediff": _date_diff, "date_diff": _date_diff,
    "add_months": _add_months, "last_day": fixed("last_day", "date", "date"),
    "dayname": fixed("dayname", "string", "date"), "monthname": fixed("monthname", "string", "date"),
    "make_date": fixed("make_date", "date", "int", "int", "int"),
    "date_format": _date_format, "from_unixtime": _from_unixtime,
    "to_timestamp": lambda node: cast(take("to_timestamp", node, "timestamp"), "timestamp"),
    "date_from_unix_date": lambda node: Call(
        "date_add", (Literal(0, "date"), take("date_from_unix_date", node, "int")), "date"),
    # arrays
    "array": _array, "size": _size, "cardinality": _size, "array_size": _size, "element_at": _element_at, "get": _get,
    "array_contains": _array_contains, "array_join": _array_join, "sort_array": _sort_array,
    "array_max": _array_extreme("array_max"), "array_min": _array_extreme("array_min"),
}  # fmt: skip
#: Written without brackets, or with a syntax of their own.
SPECIAL: Final = ("case", "cast", "current_date", "current_timestamp", "extract", "now", "try_cast")
#: What stands for a unit in the first of three arguments.
UNIT_FIRST: Final = ("dateadd", "date_add", "datediff", "date_diff", "timestampadd", "timestampdiff")

__all__ = ["DAYS", "FUNCTIONS", "SPECIAL", "UNIT_FIRST", "element", "item", "part"]
