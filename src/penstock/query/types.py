"""Spark's types as DuckDB calls them.

>>> duckdb_type("array<decimal(10,2)>"), duckdb_type("timestamp")
('DECIMAL(10,2)[]', 'TIMESTAMP')
"""

from __future__ import annotations

from penstock.model.expressions.coerce import Outside
from penstock.model.types import is_numeric

_TYPES = {
    "tinyint": "TINYINT", "smallint": "SMALLINT", "int": "INTEGER", "bigint": "BIGINT", "float": "FLOAT",
    "double": "DOUBLE", "boolean": "BOOLEAN", "string": "VARCHAR", "binary": "BLOB", "date": "DATE",
    "timestamp": "TIMESTAMP", "interval": "BIGINT", "interval day": "BIGINT", "interval month": "INTEGER",
}  # fmt: skip


def duckdb_type(kind: str) -> str:
    """The type of DuckDB that holds the values of a type."""
    if kind.startswith("array<"):
        return duckdb_type(kind[6:-1]) + "[]"
    if kind.startswith("decimal("):
        return kind.upper()
    if kind not in _TYPES:
        raise Outside(f"a value of type {kind} is not supported here")
    return _TYPES[kind]


def is_comparable(kind: str) -> bool:
    """Whether values may be compared, sorted and grouped: arrays, structs and maps are left to Spark."""
    return is_numeric(kind) or kind in _TYPES
