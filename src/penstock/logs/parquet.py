"""Parquet files as columns, inside Spark's tasks: rows need not pass through Java to reach the kernel."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl
import pyarrow.parquet as pq

from penstock.errors import PenstockError
from penstock.kernel.expressions import dtype
from penstock.model.types import Schema

#: How many rows are handed on at a time.
_ROWS = 250_000


def read_file(path: str, schema: Schema) -> Iterator[pl.DataFrame]:
    """The columns of the schema, with nulls for those that the file lacks."""
    with pq.ParquetFile(path) as file:
        there = [name for name in schema.names if name in file.schema_arrow.names]
        for batch in file.iter_batches(batch_size=_ROWS, columns=there):
            frame = pl.DataFrame({name: pl.from_arrow(batch.column(name)) for name in there}, height=batch.num_rows)
            yield frame.select(_column(frame, name, kind, path) for name, kind in schema)


def _column(frame: pl.DataFrame, name: str, kind: str, path: str) -> pl.Series:
    """A column in the type that the stream declares. Numbers widen; what would change a value is refused."""
    target = dtype(kind)
    if name not in frame.columns:
        return pl.Series(name, [None], dtype=target).new_from_index(0, frame.height)
    column = frame[name]
    found = column.dtype
    fits = (
        found == target
        or (found.is_integer() and target.is_integer())
        or (found.is_numeric() and target.is_float())
        or (found.is_temporal() and target.is_temporal() and found.base_type() == target.base_type())
        or (found.is_decimal() and target.is_decimal())
        or (found.is_nested() and found.base_type() == target.base_type())
        or found == pl.Null
    )
    if not fits:
        raise PenstockError(
            f"the column «{name}» of the file «{path}» is {found}, and the stream declares {kind}",
            hint="declare the type that the files have, and cast it in a select",
        )
    if isinstance(target, pl.Datetime) and isinstance(found, pl.Datetime):
        column = column.dt.cast_time_unit("us")
        return column.dt.replace_time_zone("UTC") if found.time_zone is None else column.dt.convert_time_zone("UTC")
    return column.cast(target)
