"""Reads files of the history without Spark."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from penstock.history.events.columns import COMMIT
from penstock.history.events.place import LakeError, Place
from penstock.store.file import File


def read_file(place: Place, file: File, columns: Sequence[str] | None = None) -> pa.Table:
    """The rows of a file; of the columns those that it has, and the commit that brought each."""
    try:
        with place.open(file.path) as opened:
            parquet = pq.ParquetFile(opened)
            chosen = None if columns is None else [name for name in columns if name in parquet.schema_arrow.names]
            rows = parquet.read(columns=chosen)
    except (FileNotFoundError, pa.ArrowException) as error:
        raise LakeError(
            f"the history's file '{place.path(file.path)}' cannot be read",
            detail=str(error),
            hint="penstock history verify",
        ) from error
    if file.commit is None or COMMIT in rows.column_names or (columns is not None and COMMIT not in columns):
        return rows
    return rows.append_column(COMMIT, pa.repeat(pa.scalar(file.commit, pa.int64()), rows.num_rows))


def as_frame(rows: pa.Table) -> pl.DataFrame:
    """A table as Polars has it."""
    frame = pl.from_arrow(rows)
    assert isinstance(frame, pl.DataFrame)
    return frame


def read_files(place: Place, files: Sequence[File], schema: pa.Schema) -> pl.DataFrame:
    """The rows of several files with these columns; columns that an older file lacks are null."""
    empty = schema.empty_table()
    parts = [as_frame(empty), *(as_frame(read_file(place, file, schema.names)) for file in files)]
    frame = pl.concat(parts, how="diagonal_relaxed")
    return frame.select(schema.names)
