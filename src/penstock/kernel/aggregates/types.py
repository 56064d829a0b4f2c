"""The Polars type of a column type, and values between columns and the model's plain Python.

>>> from_python("day", [0, None], "date").to_list()
[datetime.date(1970, 1, 1), None]
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from penstock.model.types import decimal_of

_SCALARS: dict[str, pl.DataType] = {
    "tinyint": pl.Int8(), "smallint": pl.Int16(), "int": pl.Int32(), "bigint": pl.Int64(), "float": pl.Float32(),
    "double": pl.Float64(), "boolean": pl.Boolean(), "string": pl.String(), "binary": pl.Binary(), "date": pl.Date(),
    "timestamp": pl.Datetime("us", "UTC"),
}  # fmt: skip


def dtype(name: str) -> pl.DataType:
    """The Polars type of a column type.

    >>> dtype("array<decimal(10,2)>")
    List(Decimal(precision=10, scale=2))
    """
    if name.startswith("array<"):
        return pl.List(dtype(name[6:-1]))
    if name.startswith("decimal("):
        return pl.Decimal(*decimal_of(name))
    return _SCALARS[name]


def to_python(value: pl.Expr, kind: str) -> pl.Expr:
    """The values as the model has them: dates as days, timestamps as µs."""
    return value.to_physical() if kind in ("date", "timestamp") else value


def from_python(name: str, values: Sequence[object], kind: str) -> pl.Series:
    """A column of the model's values."""
    wide = {"date": "int", "timestamp": "bigint"}
    element = kind.removeprefix("array<").removesuffix(">")
    plain = kind.replace(element, wide.get(element, element))
    return pl.Series(name, values, dtype=dtype(plain), strict=False).cast(dtype(kind))
