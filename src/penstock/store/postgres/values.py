"""Values on their way to PostgreSQL and back: frames as arrays, text that holds what it refuses, answers in our forms.

PostgreSQL's text has no NUL. Where there is one it goes as two signs that begin with one which Unicode gives to nobody.

>>> escaped_text("a\\0b"), unescaped_series(pl.Series(["a\\ufffe0b"])).to_list()
('a\\ufffe0b', ['a\\x00b'])
"""

from __future__ import annotations

from typing import Any, cast

import polars as pl
import pyarrow as pa

from penstock.store.present import shown

_SIGN, _NUL, _ITSELF = "\ufffe", "\ufffe0", "\ufffe1"


def escaped_text(value: object) -> object:
    """A parameter that PostgreSQL takes."""
    if isinstance(value, str) and ("\0" in value or _SIGN in value):
        return value.replace(_SIGN, _ITSELF).replace("\0", _NUL)
    return value


def escaped(frame: pl.DataFrame) -> pl.DataFrame:
    """A frame that PostgreSQL takes."""
    columns = []
    for series in frame.get_columns():
        if series.dtype == pl.String and series.str.contains_any(["\0", _SIGN]).any():
            series = series.str.replace_all(_SIGN, _ITSELF, literal=True).str.replace_all("\0", _NUL, literal=True)
        elif series.dtype == pl.Int8:
            series = series.cast(pl.Int16)
        columns.append(series)
    return pl.DataFrame(columns)


def unescaped(table: pa.Table) -> pl.DataFrame:
    """What PostgreSQL gave, as a frame."""
    columns = [_storage(column) for column in table.columns]
    frame = cast(pl.DataFrame, pl.from_arrow(pa.table(columns, _apart(table.column_names))))
    restored = [
        unescaped_series(series) for series in frame.get_columns()
        if series.dtype == pl.String and series.str.contains(_SIGN, literal=True).any()
    ]  # fmt: skip
    return frame.with_columns(restored)


def _apart(names: list[str]) -> list[str]:
    """Names of columns, told apart: PostgreSQL gives all that have none the same."""
    return [name if name not in names[:number] else f"{name} {number + 1}" for number, name in enumerate(names)]


def unescaped_series(series: pl.Series) -> pl.Series:
    return series.str.replace_all(_NUL, "\0", literal=True).str.replace_all(_ITSELF, _SIGN, literal=True)


def unescaped_texts(table: pa.Table) -> pa.Table:
    """What PostgreSQL gave, with the texts as they were."""
    for number, column in enumerate(table.columns):
        if pa.types.is_string(column.type):
            series = pl.Series(column, dtype=pl.String)
            if series.str.contains(_SIGN, literal=True).any():
                texts = unescaped_series(series).to_arrow(compat_level=pl.CompatLevel.oldest()).cast(pa.string())
                table = table.set_column(number, table.field(number), texts)
    return table


def _storage(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column without Arrow's extension; PostgreSQL's numeric as a number: a whole one if all are."""
    kind = column.type
    if not isinstance(kind, pa.BaseExtensionType):
        return column
    plain_column = pa.chunked_array([chunk.storage for chunk in column.chunks], kind.storage_type)
    if "numeric" not in str(kind):
        return plain_column
    series = pl.Series(plain_column)
    whole = series.cast(pl.Int64, strict=False)
    numbers = whole if whole.null_count() == series.null_count() else series.cast(pl.Float64, strict=False)
    return pa.chunked_array([numbers.to_arrow()])


def as_lists(frame: pl.DataFrame) -> pa.RecordBatch:
    """A frame as one row of arrays."""
    ends = pa.array([0, frame.height], pa.int32())
    columns = [pa.ListArray.from_arrays(ends, series.rechunk().to_arrow()) for series in frame.get_columns()]
    return pa.RecordBatch.from_arrays(columns, names=frame.columns)


def plain(frame: pl.DataFrame) -> pl.DataFrame:
    """An answer in the forms that all stores have: times are text, booleans 0 and 1, whole numbers 64 bits wide."""
    return frame.select(_plain(series) for series in frame.get_columns())


def _plain(series: pl.Series) -> Any:
    kind = series.dtype
    if kind in (pl.Boolean, pl.Int8, pl.Int16, pl.Int32, pl.UInt32):
        return series.cast(pl.Int64)
    if kind == pl.Float32:
        return series.cast(pl.Float64)
    if isinstance(kind, pl.Datetime):
        return shown(series.cast(pl.Datetime("us")))
    return shown(series) if kind == pl.Date or kind.is_nested() else series
