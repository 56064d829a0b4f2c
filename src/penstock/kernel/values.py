"""Columns of the kernel as values of the model, and back: dates are days there, timestamps microseconds.

>>> model_rows(pl.DataFrame([model_series("day", "date", [0, None])]))
[(0,), (None,)]
"""

from __future__ import annotations

import polars as pl

from penstock.kernel.expressions import dtype, is_of_kernel
from penstock.kernel.expressions.dtypes import physical_type
from penstock.model.types import Schema


def model_series(name: str, kind: str, values: list[object]) -> pl.Series:
    """A column from values of the model."""
    target = dtype(kind)
    physical = physical_type(target)
    series = pl.Series(name, values, dtype=physical, strict=False)
    return series.cast(target) if target != physical else series


def model_rows(frame: pl.DataFrame) -> list[tuple[object, ...]]:
    """Rows as values of the model."""
    return [tuple(row) for row in frame.select(plain(c) for c in frame.get_columns()).iter_rows()]


def plain(series: pl.Series) -> pl.Series:
    """A column with times as numbers."""
    physical = physical_type(series.dtype)
    return series if physical == series.dtype else series.cast(physical)


def kernel_columns(schema: Schema) -> Schema:
    """The columns that the kernel has types for."""
    return Schema(tuple((name, kind) for name, kind in schema if is_of_kernel(kind)))
