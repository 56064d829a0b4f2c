"""Arrays, maps and structs on columns.

>>> import polars as pl
>>> from penstock.model.expressions.tree import Call
>>> pl.select(NESTED["get"](Call("get", (), "int"), pl.lit([1, 2]), pl.lit(1))).item()
2
"""

from __future__ import annotations

from typing import Final

import polars as pl

from penstock.kernel.expressions.dtypes import dtype, entries
from penstock.kernel.expressions.outcome import Outcome, Rule
from penstock.model.expressions.nested_values import INDEX_ZERO, OUT_OF_BOUNDS
from penstock.model.expressions.tree import Call, Literal


def _constant(call: Call, place: int) -> str:
    literal = call.args[place]
    assert isinstance(literal, Literal)
    return str(literal.value)


def _item(_: Call, values: pl.Expr, index: pl.Expr) -> Outcome:
    outside = (index < 0) | (index >= values.list.len().cast(pl.Int64))
    return Outcome(values.list.get(index, null_on_oob=True), outside & values.is_not_null(), OUT_OF_BOUNDS)


def _get(_: Call, values: pl.Expr, index: pl.Expr) -> pl.Expr:
    return pl.when(index >= 0).then(values.list.get(index, null_on_oob=True))


def _element_at(_: Call, values: pl.Expr, index: pl.Expr) -> Outcome:
    at = pl.when(index > 0).then(index - 1).otherwise(index)
    reason = pl.when(index == 0).then(pl.lit(INDEX_ZERO)).otherwise(pl.lit(OUT_OF_BOUNDS))
    outside = (index == 0) | (index.cast(pl.Int64).abs() > values.list.len().cast(pl.Int64))
    return Outcome(values.list.get(at, null_on_oob=True), outside & values.is_not_null(), reason)


def _size(call: Call, values: pl.Expr) -> pl.Expr:
    count = values.map.len() if call.args[0].type.startswith("map<") else values.list.len()
    return count.cast(pl.Int32)


def _array_contains(_: Call, values: pl.Expr, value: pl.Expr) -> pl.Expr:
    """Null if the value is not there but a null is, which might be equal to it."""
    contained = values.list.contains(value, nulls_equal=False)
    unknown = values.list.drop_nulls().list.len() < values.list.len()
    known = pl.when(contained).then(True).when(~unknown).then(False)
    return pl.when(values.is_not_null() & value.is_not_null()).then(known)


def _array_join(_: Call, values: pl.Expr, separator: pl.Expr) -> pl.Expr:
    return pl.when(separator.is_not_null()).then(values.list.drop_nulls().list.join(separator))


def _field(call: Call, value: pl.Expr, _: pl.Expr) -> pl.Expr:
    name = _constant(call, 1)
    if call.args[0].type.startswith("array<"):
        return value.list.eval(pl.element().struct.field(name))
    return value.struct.field(name)


def _named_struct(call: Call, *args: pl.Expr) -> pl.Expr:
    names = (_constant(call, place) for place in range(0, len(args), 2))
    return pl.struct(value.alias(name) for name, value in zip(names, args[1::2], strict=True))


NESTED: Final[dict[str, Rule]] = {
    "split": lambda call, text, _: text.str.split(_constant(call, 1)),
    "split_by": lambda call, text, _: text.str.split(_constant(call, 1), literal=False),
    "size": _size, "item": _item, "element_at": _element_at, "get": _get,
    "array": lambda call, *values: pl.concat_list(values).cast(dtype(call.type)),
    "array_contains": _array_contains, "array_join": _array_join,
    "array_distinct": lambda _, values: values.list.unique(maintain_order=True),
    "map_value": lambda _, map_, key: map_.map.get(key),
    "map_keys": lambda _, map_: map_.map.keys(), "map_values": lambda _, map_: map_.map.values(),
    "map_entries": lambda call, map_: entries(map_, call.args[0].type),
    "map_contains_key": lambda _, map_, key: pl.when(key.is_not_null()).then(map_.map.contains_key(key)),
    "field": _field, "named_struct": _named_struct,
}  # fmt: skip
