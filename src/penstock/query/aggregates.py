"""The aggregates and window functions that a question may call, with Spark's types.

>>> from penstock.model.expressions.tree import Column
>>> AGGREGATES["sum"](Column("price", "decimal(10,2)")).type
'decimal(20,2)'
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from penstock.model.expressions.coerce import Outside, cast, is_decimal
from penstock.model.expressions.functions import take
from penstock.model.expressions.tree import VOID, Call, Literal, Node
from penstock.model.types import decimal_of, is_integer, is_numeric
from penstock.query.nodes import Aggregate

AggregateRule: TypeAlias = Callable[..., Aggregate]
_COMMA, _ONE, _NO = Literal("", "string"), Literal(1, "int"), Literal(False, "boolean")


def _scalar(name: str, node: Node) -> Node:
    if node.type == VOID or node.type.startswith(("array<", "struct<", "map<", "interval")):
        raise Outside(f"{name} of {node.type} is not supported")
    return node


def _number(name: str, node: Node) -> Node:
    """Strings are read as doubles, as in Spark."""
    if node.type in ("string", VOID):
        return cast(node, "double")
    if not is_numeric(node.type):
        raise Outside(f"{name} of {node.type} is not supported")
    return node


def _count(*args: Node) -> Aggregate:
    if not args:
        raise Outside("count needs an argument: count(*) counts rows")
    return Aggregate("count", args, "bigint")


def _sum(node: Node) -> Aggregate:
    node = _number("sum", node)
    if is_decimal(node.type):
        precision, scale = decimal_of(node.type)
        return Aggregate("sum", (node,), f"decimal({min(precision + 10, 38)},{scale})")
    if is_integer(node.type):
        return Aggregate("sum", (node,), "bigint")
    return Aggregate("sum", (cast(node, "double"),), "double")


def _avg(node: Node) -> Aggregate:
    node = _number("avg", node)
    if is_decimal(node.type):
        precision, scale = decimal_of(node.type)
        precision, scale = precision + 4, scale + 4
        kind = f"decimal({min(precision, 38)},{min(scale, 38)})"
        return Aggregate("avg", (node,), kind)
    return Aggregate("avg", (cast(node, "double"),), "double")


def _extreme(name: str) -> AggregateRule:
    return lambda node: Aggregate(name, (_scalar(name, node),), node.type)


def _by(name: str) -> AggregateRule:
    def rule(value: Node, by: Node) -> Aggregate:
        if value.type == VOID:
            raise Outside(f"{name} of NULL is not supported")
        return Aggregate(name, (value, _scalar(name, by)), value.type)

    return rule


def _moment(name: str) -> AggregateRule:
    return lambda node: Aggregate(name, (cast(_number(name, node), "double"),), "double")


def _logic(name: str) -> AggregateRule:
    def rule(node: Node) -> Aggregate:
        if node.type != "boolean":
            raise Outside(f"{name} of {node.type} is not supported")
        return Aggregate(name, (node,), "boolean")

    return rule


def _count_if(node: Node) -> Aggregate:
    if node.type != "boolean":
        raise Outside(f"count_if of {node.type} is not supported")
    return Aggregate("count_if", (node,), "bigint")


def _any_value(node: Node) -> Aggregate:
    if node.type == VOID:
        raise Outside("any_value of NULL is not supported")
    return Aggregate("any_value", (node,), node.type)


def _list(name: str) -> AggregateRule:
    def rule(node: Node) -> Aggregate:
        if node.type == VOID or (name == "collect_set" and node.type.startswith(("array<", "struct<", "map<"))):
            raise Outside(f"{name} of {node.type} is not supported")
        return Aggregate(name, (node,), f"array<{node.type}>")

    return rule


def _text(node: Node, separator: Node = _COMMA) -> Aggregate:
    if node.type != "string" or separator.type not in ("string", VOID):
        raise Outside(f"listagg of {node.type} is not supported")
    if not isinstance(separator, Literal):
        raise Outside("listagg needs a constant separator")
    return Aggregate("listagg", (node, separator if separator.value is not None else _COMMA), "string")


def _percentile(name: str) -> AggregateRule:
    def rule(node: Node, share: Node) -> Aggregate:
        if not isinstance(share, Literal) or not is_numeric(share.type) or share.value is None:
            raise Outside(f"{name} needs a constant share from 0 to 1")
        fraction = float(share.value)  # type: ignore[arg-type]
        if not 0 <= fraction <= 1:
            raise Outside(f"{name} needs a share from 0 to 1, not {fraction}")
        return Aggregate(name, (cast(_number(name, node), "double"), Literal(fraction, "double")), "double")

    return rule


def _median(node: Node) -> Aggregate:
    return _percentile("percentile")(node, Literal(0.5, "double"))


def _bits(name: str) -> AggregateRule:
    def rule(node: Node) -> Aggregate:
        if not is_integer(node.type):
            raise Outside(f"{name} of {node.type} is not supported")
        return Aggregate(name, (node,), node.type)

    return rule


AGGREGATES: Final[dict[str, AggregateRule]] = {
    "count": _count, "count_if": _count_if, "sum": _sum, "avg": _avg, "mean": _avg,
    "min": _extreme("min"), "max": _extreme("max"), "min_by": _by("min_by"), "max_by": _by("max_by"),
    **dict.fromkeys(("stddev", "stddev_samp", "std"), _moment("stddev_samp")), "stddev_pop": _moment("stddev_pop"),
    **dict.fromkeys(("variance", "var_samp"), _moment("var_samp")), "var_pop": _moment("var_pop"),
    **dict.fromkeys(("bool_and", "every"), _logic("bool_and")),
    **dict.fromkeys(("bool_or", "some", "any"), _logic("bool_or")),
    "any_value": _any_value, **dict.fromkeys(("array_agg", "collect_list"), _list("collect_list")),
    "collect_set": _list("collect_set"), **dict.fromkeys(("listagg", "string_agg"), _text),
    "median": _median, "percentile": _percentile("percentile"),
    "percentile_cont": _percentile("percentile"), "percentile_disc": _percentile("percentile_disc"),
    "bit_and": _bits("bit_and"), "bit_or": _bits("bit_or"), "bit_xor": _bits("bit_xor"),
}  # fmt: skip
#: Aggregates that take their values from WITHIN GROUP (ORDER BY …).
WITHIN_GROUP: Final = ("percentile_cont", "percentile_disc")


def _rank(name: str, kind: str = "int") -> Callable[..., tuple[str, tuple[Node, ...], str]]:
    return lambda: (name, (), kind)


def _ntile(count: Node = _ONE) -> tuple[str, tuple[Node, ...], str]:
    if not isinstance(count, Literal) or not isinstance(count.value, int) or not 0 < count.value < 1 << 31:
        raise Outside("ntile needs a constant number of buckets above zero")
    return "ntile", (take("ntile", count, "int"),), "int"


def _beside(name: str) -> Callable[..., tuple[str, tuple[Node, ...], str]]:
    """lag and lead."""

    def rule(node: Node, offset: Node = _ONE, default: Node | None = None) -> tuple[str, tuple[Node, ...], str]:
        if not isinstance(offset, Literal) or not isinstance(offset.value, int):
            raise Outside(f"{name} needs a constant offset")
        if default is not None and default.type not in (VOID, node.type):
            if not (isinstance(default, Literal) and is_integer(default.type) and is_numeric(node.type)):
                raise Outside(f"{name} of {node.type} with a default of {default.type} is not supported")
            if isinstance(cast(default, node.type), Call):
                raise Outside(f"{name} of {node.type} with a default of {default.value} is not supported")
        rest = () if default is None else (cast(default, node.type),)
        return name, (node, cast(offset, "bigint"), *rest), node.type

    return rule


def _value(name: str) -> Callable[..., tuple[str, tuple[Node, ...], str]]:
    def rule(node: Node, ignore: Node = _NO) -> tuple[str, tuple[Node, ...], str]:
        if not isinstance(ignore, Literal) or ignore.value is not False:
            raise Outside(f"write {name}(…) IGNORE NULLS")
        return name, (node,), node.type

    return rule


def _nth_value(node: Node, index: Node) -> tuple[str, tuple[Node, ...], str]:
    if not isinstance(index, Literal) or not isinstance(index.value, int) or index.value < 1:
        raise Outside("nth_value needs a constant index above zero")
    return "nth_value", (node, cast(index, "bigint")), node.type


#: Each gives the name in DuckDB, the arguments and the type.
WINDOWS: Final[dict[str, Callable[..., tuple[str, tuple[Node, ...], str]]]] = {
    "row_number": _rank("row_number"), "rank": _rank("rank"), "dense_rank": _rank("dense_rank"),
    "percent_rank": _rank("percent_rank", "double"), "cume_dist": _rank("cume_dist", "double"), "ntile": _ntile,
    "lag": _beside("lag"), "lead": _beside("lead"),
    "first_value": _value("first_value"), "first": _value("first_value"),
    "last_value": _value("last_value"), "last": _value("last_value"), "nth_value": _nth_value,
}  # fmt: skip
#: Window functions that look at the whole partition, in its order; the others at the frame.
ORDERED: Final = ("row_number", "rank", "dense_rank", "percent_rank", "cume_dist", "ntile", "lag", "lead")
