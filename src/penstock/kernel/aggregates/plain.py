"""Values between columns and the model's plain Python.

>>> from_python("day", [0, None], "date").to_list()
[datetime.date(1970, 1, 1), None]
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from penstock.kernel.expressions.dtypes import dtype


def to_python(value: pl.Expr, kind: str) -> pl.Expr:
    """The values as the model has them: dates as days, timestamps as µs."""
    return value.to_physical() if kind in ("date", "timestamp") else value


def from_python(name: str, values: Sequence[object], kind: str) -> pl.Series:
    """A column of the model's values."""
    wide = {"date": "int", "timestamp": "bigint"}
    element = kind.removeprefix("array<").removesuffix(">")
    plain = kind.replace(element, wide.get(element, element))
    return pl.Series(name, values, dtype=dtype(plain), strict=False).cast(dtype(kind))
