"""Arrays, maps and structs: the functions that take them apart and make them, as rules from typed arguments to calls.

>>> from penstock.model.expressions.tree import Column
>>> NESTED["size"](Column("tags", "array<string>"))
Call(name='size', args=(Column(name='tags', type='array<string>'),), type='int', safe=False)
>>> field(Column("user", "struct<Name:string>"), "name").type
'string'
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from penstock.model.expressions.coerce import Outside, cast, common, common_of
from penstock.model.expressions.patterns import java_regex, may_match_nothing
from penstock.model.expressions.tree import VOID, Call, Literal, Node
from penstock.model.types import fields_of, is_float, is_nested

Rule = Callable[..., Node]
#: A pattern of these characters alone means itself.
_LITERAL = re.compile(r"[^\\.+*?()|\[\]{}^$]+")


def element(node: Node, what: str) -> str:
    """The type of an array's elements."""
    if not node.type.startswith("array<"):
        raise Outside(f"{what} of {node.type} is outside the kernel")
    return node.type[6:-1]


def entry(node: Node, what: str) -> tuple[str, str]:
    """The types of a map's keys and values."""
    if not node.type.startswith("map<"):
        raise Outside(f"{what} of {node.type} is outside the kernel")
    (_, key), (_, value) = fields_of(node.type)
    if is_float(key) or is_nested(key):
        raise Outside(f"a map with keys of {key} is outside the kernel")
    return key, value


def field(node: Node, name: str) -> Node:
    """A field of a struct, or of each struct of an array."""
    of_each = node.type.startswith("array<struct<")
    kind = node.type[6:-1] if of_each else node.type
    if not kind.startswith("struct<"):
        raise Outside(f"the field '{name}' of {node.type} is outside the kernel")
    fields = [(known, part) for known, part in fields_of(kind) if known.lower() == name.lower()]
    if len(fields) != 1:
        raise Outside(f"the field '{name}' of {kind} is outside the kernel")
    known, part = fields[0]
    return Call("field", (node, Literal(known, "string")), f"array<{part}>" if of_each else part)


def item(node: Node, index: Node) -> Node:
    """`a[0]`, counted from 0, and `m['key']`."""
    if node.type.startswith("map<"):
        return _value_of(node, index)
    kind = element(node, "an index")
    return Call("item", (node, _index(index)), kind)


def _index(node: Node) -> Node:
    """A place in an array. Of a bigint Spark takes the lower half without a word."""
    if node.type not in ("tinyint", "smallint", "int"):
        raise Outside(f"an index of {node.type} is outside the kernel")
    return cast(node, "int")


def _value_of(node: Node, key: Node) -> Node:
    kind, value = entry(node, "a key")
    if key.type == VOID or common(key.type, kind) != kind:
        raise Outside(f"a key of {key.type} in {node.type} is outside the kernel")
    return Call("map_value", (node, cast(key, kind)), value)


def _element_at(node: Node, index: Node) -> Node:
    """From 1 on, from the end where it is negative; or the value of a map's key."""
    if node.type.startswith("map<"):
        return _value_of(node, index)
    kind = element(node, "element_at")
    return Call("element_at", (node, _index(index)), kind)


def _get(node: Node, index: Node) -> Node:
    kind = element(node, "get")
    return Call("get", (node, _index(index)), kind)


def _size(node: Node) -> Node:
    if not node.type.startswith(("array<", "map<")):
        raise Outside(f"size of {node.type} is outside the kernel")
    return Call("size", (node,), "int")


def _array_size(node: Node) -> Node:
    element(node, "array_size")
    return _size(node)


def _array(*args: Node) -> Node:
    kind = common_of(args, "array")
    if kind == VOID or is_nested(kind):
        raise Outside(f"array of {kind} is outside the kernel")
    return Call("array", tuple(cast(arg, kind) for arg in args), f"array<{kind}>")


def _array_contains(node: Node, value: Node) -> Node:
    kind = element(node, "array_contains")
    if is_nested(kind) or value.type == VOID or common(value.type, kind, strings=False) != kind:
        raise Outside(f"array_contains of {node.type} and {value.type} is outside the kernel")
    return Call("array_contains", (node, cast(value, kind)), "boolean")


def _array_join(node: Node, separator: Node) -> Node:
    if node.type != "array<string>" or separator.type != "string":
        raise Outside(f"array_join of {node.type} is outside the kernel")
    return Call("array_join", (node, separator), "string")


def _array_distinct(node: Node) -> Node:
    kind = element(node, "array_distinct")
    if is_nested(kind) or is_float(kind):
        raise Outside(f"array_distinct of {node.type} is outside the kernel")
    return Call("array_distinct", (node,), node.type)


def _map_part(name: str, kind: Callable[[str, str], str]) -> Rule:
    return lambda node: Call(name, (node,), kind(*entry(node, name)))


def _map_contains_key(node: Node, key: Node) -> Node:
    kind, _ = entry(node, "map_contains_key")
    if key.type == VOID or common(key.type, kind, strings=False) != kind:
        raise Outside(f"map_contains_key of {node.type} and {key.type} is outside the kernel")
    return Call("map_contains_key", (node, cast(key, kind)), "boolean")


def _named_struct(*args: Node) -> Node:
    names, values = args[::2], args[1::2]
    if len(names) != len(values) or not names:
        raise Outside(f"named_struct of {len(args)} arguments is outside the kernel")
    for name, value in zip(names, values, strict=True):
        if not isinstance(name, Literal) or not isinstance(name.value, str) or not name.value.isidentifier():
            raise Outside("named_struct with a name that is not a plain constant is outside the kernel")
        if value.type == VOID:
            raise Outside("named_struct with a field of NULL is outside the kernel")
    kinds = ",".join(f"{name.value}:{value.type}" for name, value in zip(names, values, strict=True))  # type: ignore[union-attr]
    return Call("named_struct", args, f"struct<{kinds}>")


def _split(text: Node, pattern: Node, limit: Node | None = None) -> Node:
    """By a constant pattern that matches no empty text: there Java goes its own way."""
    if not isinstance(pattern, Literal) or not isinstance(pattern.value, str) or not pattern.value:
        raise Outside("split by a pattern that is not a constant, or empty, is outside the kernel")
    if limit is not None and not (isinstance(limit, Literal) and isinstance(limit.value, int) and limit.value <= 0):
        raise Outside("split with a limit is outside the kernel")
    if is_nested(text.type) or text.type in (VOID, "binary"):
        raise Outside(f"split of {text.type} is outside the kernel")
    node = cast(text, "string")
    if _LITERAL.fullmatch(pattern.value):
        return Call("split", (node, pattern), "array<string>")
    regex = java_regex(pattern.value)
    if may_match_nothing(regex):
        raise Outside(f"split by '{pattern.value}', which may match nothing, is outside the kernel")
    return Call("split_by", (node, Literal(regex, "string")), "array<string>")


NESTED: Final[dict[str, Rule]] = {
    "split": _split, "size": _size, "cardinality": _size, "array_size": _array_size, "array": _array, "get": _get,
    "element_at": _element_at, "array_contains": _array_contains, "array_join": _array_join,
    "array_distinct": _array_distinct,
    "map_keys": _map_part("map_keys", lambda key, _: f"array<{key}>"),
    "map_values": _map_part("map_values", lambda _, value: f"array<{value}>"),
    "map_entries": _map_part("map_entries", lambda key, value: f"array<struct<key:{key},value:{value}>>"),
    "map_contains_key": _map_contains_key, "named_struct": _named_struct,
}  # fmt: skip
