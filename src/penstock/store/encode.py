"""State in SQL types, exactly: what is stored comes back with the same type, null, NaN and sign of zero.

Scalars stay columns all the way; lists and structs become bytes.
"""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from penstock.kernel.nested import packed, unpacked
from penstock.kernel.scalars import is_whole, is_wide, loaded_scalar, nulls, stored_scalar


def sql_type(kind: pl.DataType) -> str:
    """The SQL type that a column of state has in the store."""
    if kind == pl.Boolean:
        return "BOOLEAN"
    if is_whole(kind):
        return "INTEGER"
    return "TEXT" if kind == pl.String or is_wide(kind) else "BLOB"


def stored(series: pl.Series) -> pl.Series:
    """A column of state as the store keeps it."""
    return packed(series) if series.dtype.is_nested() else stored_scalar(series)


def loaded(series: pl.Series, kind: pl.DataType) -> pl.Series:
    """A column of state as the kernel had it."""
    if not kind.is_nested():
        return loaded_scalar(series, kind)
    if series.null_count() == len(series):
        return nulls(series.name, kind, len(series))
    return unpacked(series, kind)


def stored_frame(frame: pl.DataFrame, columns: Mapping[str, str]) -> pl.DataFrame:
    """Columns of state under the names that they have in the store."""
    return pl.DataFrame([stored(frame[name]).alias(column) for name, column in columns.items()])


def loaded_frame(frame: pl.DataFrame, schema: Mapping[str, pl.DataType]) -> pl.DataFrame:
    """What the store gave, column by column, as the kernel's frame."""
    columns = zip(frame.get_columns(), schema.items(), strict=True)
    return pl.DataFrame([loaded(series, kind).alias(name) for series, (name, kind) in columns])
