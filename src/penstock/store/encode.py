"""State in SQL types, exactly: what is stored comes back with the same type, null, NaN and sign of zero.

Scalars stay columns all the way. Floats are kept by their bits, since SQLite has no NaN; decimals by their digits;
lists and structs row by row as MessagePack.

>>> stored(pl.Series([0.0, None])).to_list(), loaded(stored(pl.Series([1.5])), pl.Float64()).to_list()
([0, None], [1.5])
"""

from __future__ import annotations

from collections.abc import Mapping

import msgpack
import polars as pl

INTEGERS = (pl.Int8, pl.Int16, pl.Int32, pl.Int64)


def sql_type(kind: pl.DataType) -> str:
    """The SQL type that a column of state has in the store."""
    if kind in INTEGERS or kind.is_float() or kind in (pl.Boolean, pl.Date) or isinstance(kind, pl.Datetime):
        return "INTEGER"
    return "TEXT" if kind == pl.String or _is_wide(kind) else "BLOB"


def stored(series: pl.Series) -> pl.Series:
    """A column of state as the store keeps it."""
    kind = series.dtype
    if kind == pl.Float64:
        return series.reinterpret(dtype=pl.Int64())
    if kind == pl.Float32:
        return series.reinterpret(dtype=pl.Int32())
    if kind.is_nested():
        values = series.cast(_plain(kind)).to_list()
        packed = [None if value is None else msgpack.packb(value) for value in values]
        return pl.Series(series.name, packed, dtype=pl.Binary)
    if _is_wide(kind):
        return series.to_physical().cast(pl.String)
    return series.to_physical() if kind.is_temporal() else series


def loaded(series: pl.Series, kind: pl.DataType) -> pl.Series:
    """A column of state as the kernel had it. A column of nulls may come back from SQLite as any type."""
    if series.null_count() == len(series):
        return pl.Series(series.name, [None], dtype=kind).new_from_index(0, len(series))
    if kind == pl.Float64:
        return series.reinterpret(dtype=pl.Float64())
    if kind == pl.Float32:
        return series.cast(pl.Int32).reinterpret(dtype=pl.Float32())
    if kind.is_nested():
        values = [None if packed is None else msgpack.unpackb(packed) for packed in series.to_list()]
        return pl.Series(series.name, values, dtype=_plain(kind)).cast(kind)
    if isinstance(kind, pl.Decimal):
        return series.cast(pl.Int128).reinterpret(dtype=pl.Decimal(38, kind.scale)).cast(kind)
    if kind == pl.Date:
        return series.cast(pl.Int32).cast(pl.Date)
    return series.cast(kind)


def stored_frame(frame: pl.DataFrame, columns: Mapping[str, str]) -> pl.DataFrame:
    """Columns of state under the names that they have in the store."""
    return pl.DataFrame([stored(frame[name]).alias(column) for name, column in columns.items()])


def loaded_frame(frame: pl.DataFrame, schema: Mapping[str, pl.DataType]) -> pl.DataFrame:
    """What the store gave, column by column, as the kernel's frame."""
    columns = zip(frame.get_columns(), schema.items(), strict=True)
    return pl.DataFrame([loaded(series, kind).alias(name) for series, (name, kind) in columns])


def _is_wide(kind: pl.DataType) -> bool:
    """Whether a number may have more than 64 bits."""
    return isinstance(kind, pl.Decimal) or kind == pl.Int128


def _plain(kind: pl.DataType) -> pl.DataType:
    """The type that holds the same values in what MessagePack knows."""
    if isinstance(kind, pl.List):
        return pl.List(_plain(kind.inner))  # type: ignore[arg-type]
    if isinstance(kind, pl.Struct):
        return pl.Struct({part.name: _plain(part.dtype) for part in kind.fields})  # type: ignore[arg-type]
    if _is_wide(kind):
        return pl.String()
    if kind == pl.Date:
        return pl.Int32()
    return pl.Int64() if isinstance(kind, pl.Datetime) else kind
