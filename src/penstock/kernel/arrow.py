"""Spark's types as Arrow has them. A timestamp has no zone: it is an instant in UTC.

>>> arrow_type("decimal(10,2)"), arrow_type("array<struct<item:string,n:bigint>>")
(Decimal128Type(decimal128(10, 2)), ListType(list<item: struct<item: string, n: int64>>))
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import pyarrow as pa

from penstock.model.types import decimal_of, split_types, type_name

_SCALARS: Final[dict[str, pa.DataType]] = {
    "tinyint": pa.int8(), "smallint": pa.int16(), "int": pa.int32(), "bigint": pa.int64(), "float": pa.float32(),
    "double": pa.float64(), "boolean": pa.bool_(), "string": pa.string(), "binary": pa.binary(), "date": pa.date32(),
    "timestamp": pa.timestamp("us"), "timestamp_ntz": pa.timestamp("us"), "void": pa.null(),
}  # fmt: skip


@lru_cache(maxsize=1024)
def arrow_type(kind: str) -> pa.DataType:
    """The Arrow type of a column of a canonical type."""
    if kind in _SCALARS:
        return _SCALARS[kind]
    if kind.startswith("decimal("):
        return pa.decimal128(*decimal_of(kind))
    head, _, inner = kind.removesuffix(">").partition("<")
    if head == "array":
        return pa.list_(arrow_type(inner))
    if head == "map":
        key, value = split_types(inner)
        return pa.map_(arrow_type(key.strip()), arrow_type(value.strip()))
    if head == "struct":
        fields = [part.strip().partition(":") for part in split_types(inner)]
        return pa.struct([(name, arrow_type(field.strip())) for name, _, field in fields])
    return arrow_type(type_name(kind))  # another spelling, or a type that there is not


def spark_type(kind: pa.DataType) -> str:
    """The type of Spark's that an Arrow type stands for.

    >>> spark_type(pa.timestamp("ms", "UTC")), spark_type(pa.large_list(pa.decimal128(5, 1)))
    ('timestamp', 'array<decimal(5,1)>')
    """
    for name, known in _SCALARS.items():
        if known == kind:
            return name
    if pa.types.is_timestamp(kind):
        return "timestamp"
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return f"array<{spark_type(kind.value_type)}>"
    if pa.types.is_struct(kind):
        return f"struct<{','.join(f'{field.name}:{spark_type(field.type)}' for field in kind)}>"
    if pa.types.is_map(kind):
        return f"map<{spark_type(kind.key_type)},{spark_type(kind.item_type)}>"
    if pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind):
        return "binary"
    if pa.types.is_unsigned_integer(kind):
        return "bigint" if kind.bit_width < 64 else "decimal(20,0)"
    return "string"


def for_spark(kind: pa.DataType) -> pa.DataType:
    """A type as Spark takes it from Arrow: not the wide lists that Polars gives.

    >>> for_spark(pa.large_list(pa.int32()))
    ListType(list<item: int32>)
    """
    if pa.types.is_large_list(kind):
        return pa.list_(for_spark(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([(part.name, for_spark(part.type)) for part in kind])
    return kind
