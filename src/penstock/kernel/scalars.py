"""Scalars in SQL types, exactly, a column at a time: floats by their bits, since SQLite has no NaN; decimals by digits.

>>> stored_scalar(pl.Series([0.0, None])).to_list(), loaded_scalar(pl.Series([0]), pl.Float64()).to_list()
([0, None], [0.0])
"""

from __future__ import annotations

import polars as pl

INTEGERS = (pl.Int8, pl.Int16, pl.Int32, pl.Int64)


def is_whole(kind: pl.DataType) -> bool:
    """Whether a column of this type is kept as whole numbers."""
    return kind in INTEGERS or kind.is_float() or kind in (pl.Boolean, pl.Date) or isinstance(kind, pl.Datetime)


def is_wide(kind: pl.DataType) -> bool:
    """Whether a number may have more than 64 bits; it is kept as text."""
    return isinstance(kind, pl.Decimal) or kind == pl.Int128


def stored_scalar(series: pl.Series) -> pl.Series:
    """A column as it is kept: whole numbers, text or bytes."""
    kind = series.dtype
    if kind == pl.Float64:
        return series.reinterpret(dtype=pl.Int64())
    if kind == pl.Float32:
        return series.reinterpret(dtype=pl.Int32())
    if is_wide(kind):
        return series.to_physical().cast(pl.String)
    return series.to_physical() if kind.is_temporal() else series


def loaded_scalar(series: pl.Series, kind: pl.DataType) -> pl.Series:
    """The column as it was. One of nulls may come back from SQLite as any type."""
    if series.null_count() == len(series):
        return nulls(series.name, kind, len(series))
    if kind == pl.Float64:
        return series.reinterpret(dtype=pl.Float64())
    if kind == pl.Float32:
        return series.cast(pl.Int32).reinterpret(dtype=pl.Float32())
    if isinstance(kind, pl.Decimal):
        return series.cast(pl.Int128).reinterpret(dtype=pl.Decimal(38, kind.scale)).cast(kind)
    return series.cast(pl.Int32).cast(kind) if kind == pl.Date else series.cast(kind)


def nulls(name: str, kind: pl.DataType, count: int) -> pl.Series:
    """A series of `count` nulls of a type."""
    return pl.Series(name, [None], dtype=kind).new_from_index(0, count)
