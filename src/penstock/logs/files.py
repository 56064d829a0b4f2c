"""A directory of files that grows: JSON lines, CSV or Parquet. Each file is read once, in the order of its time.

>>> files("events", format="csv", header=True)
ps.files('events', format='csv', header=True)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from penstock.errors import DefinitionError, unknown
from penstock.logs.base import MALFORMED, Log
from penstock.logs.json_lines import decoded, reads
from penstock.model.types import Schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamReader

FORMATS = ("json", "csv", "parquet")


@dataclass(frozen=True, repr=False)
class Files(Log):
    """A directory of files. A file must appear whole: write it elsewhere and move it in."""

    path: str
    format: str = "json"
    header: bool = False
    delimiter: str = ","
    files_per_epoch: int | None = None

    def read(self, spark: SparkSession, schema: Schema, columns: Sequence[str]) -> DataFrame:
        if "://" not in self.path and not Path(self.path).is_dir():
            raise DefinitionError(f"there is no directory «{self.path}»", hint="create it, or give another path")
        parsed = self.format != "parquet"
        # The columns of CSV have no names, only places: all are read, and then those that are needed.
        there = schema.names if self.format == "csv" else columns
        ddl = ", ".join(f"`{name}` {schema.type_of(name)}" for name in there)
        reader = self._reader(spark).schema(f"{ddl}, `{MALFORMED}` string" if parsed else ddl)
        if parsed:
            reader = reader.option("mode", "PERMISSIVE").option("columnNameOfCorruptRecord", MALFORMED)
        if self.format == "csv":
            reader = reader.option("header", self.header).option("sep", self.delimiter)
        return reader.format(self.format).load(self.path).select(*columns, *([MALFORMED] if parsed else []))

    def _reader(self, spark: SparkSession) -> DataStreamReader:
        reader = spark.readStream
        return reader if self.files_per_epoch is None else reader.option("maxFilesPerTrigger", self.files_per_epoch)

    def decodes(self, schema: Schema) -> bool:
        """Lines of JSON are parsed in the tasks, where all columns are of plain types: that is faster than Spark."""
        return self.format == "json" and reads(schema)

    def decode(self, rows: pl.DataFrame, schema: Schema) -> pl.DataFrame:
        return decoded(rows["value"], schema) if "value" in rows.columns and self.decodes(schema) else rows

    def __repr__(self) -> str:
        said = [repr(self.path), f"format={self.format!r}"]
        said += [f"header={self.header}"] if self.header else []
        said += [f"delimiter={self.delimiter!r}"] if self.delimiter != "," else []
        said += [f"files_per_epoch={self.files_per_epoch}"] if self.files_per_epoch is not None else []
        return f"ps.files({', '.join(said)})"


def files(
    path: str | Path,
    *,
    format: str = "json",
    header: bool = False,
    delimiter: str = ",",
    files_per_epoch: int | None = None,
) -> Files:
    """A directory of files that grows. `files_per_epoch` bounds what one epoch takes."""
    if format not in FORMATS:
        raise unknown("file format", format, FORMATS)
    if files_per_epoch is not None and files_per_epoch < 1:
        raise DefinitionError(f"files_per_epoch must be above zero, and is {files_per_epoch}")
    return Files(str(path), format, header, delimiter, files_per_epoch)
