"""The column types of the kernel: Spark's types as Polars holds them.

>>> dtype("bigint"), dtype("decimal(10,2)"), dtype("array<string>")
(Int64, Decimal(precision=10, scale=2), List(String))
"""

from __future__ import annotations

from typing import Final

import polars as pl

from penstock.errors import DefinitionError
from penstock.model.expressions.tree import Literal
from penstock.model.types import decimal_of

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
    raise DefinitionError(f"the kernel has no columns of type «{type_name}»", hint="use stream.transform(…)")


def is_of_kernel(type_name: str) -> bool:
    """Whether the kernel has columns of this type."""
    try:
        dtype(type_name)
    except DefinitionError:
        return False
    return True


def constant(literal: Literal) -> pl.Expr:
    """A literal as a column expression."""
    if literal.value is not None and literal.type in ("date", "timestamp"):
        physical = pl.Int32 if literal.type == "date" else pl.Int64
        return pl.lit(literal.value, dtype=physical).cast(dtype(literal.type))
    return pl.lit(literal.value, dtype=dtype(literal.type))
