"""The column types of the kernel: Spark's types as Polars holds them.

>>> dtype("bigint"), dtype("decimal(10,2)"), dtype("array<string>")
(Int64, Decimal(precision=10, scale=2), List(String))
"""

from __future__ import annotations

from typing import Final

import polars as pl

from penstock.errors import DefinitionError
from penstock.model.expressions.tree import Literal
from penstock.model.types import decimal_of, fields_of

_DTYPES: Final[dict[str, pl.DataType]] = {
    "tinyint": pl.Int8(), "smallint": pl.Int16(), "int": pl.Int32(), "bigint": pl.Int64(),
    "float": pl.Float32(), "double": pl.Float64(), "boolean": pl.Boolean(), "string": pl.String(),
    "binary": pl.Binary(), "date": pl.Date(), "timestamp": pl.Datetime("us", "UTC"),
}  # fmt: skip


def dtype(type_name: str) -> pl.DataType:
    """The Polars type of a column of a canonical type."""
    if type_name in _DTYPES:
        return _DTYPES[type_name]
    if type_name.startswith("decimal("):
        return pl.Decimal(*decimal_of(type_name))
    if type_name.startswith("array<"):
        return pl.List(dtype(type_name[6:-1]))
    if type_name.startswith("struct<"):
        return pl.Struct({name: dtype(kind) for name, kind in fields_of(type_name)})
    if type_name.startswith("map<"):
        key, value = (dtype(kind) for _, kind in fields_of(type_name))
        return pl.Map(key, value)
    raise DefinitionError(f"the kernel has no columns of type '{type_name}'", hint="use stream.transform(…)")


def is_of_kernel(type_name: str) -> bool:
    """Whether the kernel has columns of this type."""
    try:
        dtype(type_name)
    except DefinitionError:
        return False
    return True


def constant(literal: Literal) -> pl.Expr:
    """A literal as a column expression."""
    kind = dtype(literal.type)
    physical = physical_type(kind)
    if literal.value is not None and physical != kind:
        return pl.lit(literal.value, dtype=physical).cast(kind)
    return pl.lit(literal.value, dtype=kind)


def physical_type(kind: pl.DataType) -> pl.DataType:
    """The type with numbers in the place of times, as the model has its values.

    >>> physical_type(pl.List(pl.Date()))
    List(Int32)
    """
    match kind:
        case pl.Date():
            return pl.Int32()
        case pl.Datetime():
            return pl.Int64()
        case pl.List():
            return pl.List(physical_type(kind.inner))  # type: ignore[arg-type]
        case pl.Struct():
            return pl.Struct({part.name: physical_type(part.dtype) for part in kind.fields})  # type: ignore[arg-type]
        case pl.Map():
            return pl.Map(physical_type(kind.key), physical_type(kind.value))  # type: ignore[arg-type]
    return kind


def entries(value: pl.Expr, type_name: str) -> pl.Expr:
    """The entries of a map as a list of structs."""
    key, item = (dtype(kind) for _, kind in fields_of(type_name))
    return value.map.entries().cast(pl.List(pl.Struct({"key": key, "value": item})))
