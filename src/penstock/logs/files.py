"""A directory of files that grows: JSON lines, CSV or Parquet. Each file is read once, in the order of its time.

>>> files("events", format="csv", header=True)
ps.files('events', format='csv', header=True)
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

import polars as pl

from penstock.errors import DefinitionError, unknown
from penstock.kernel.expressions import dtype, is_of_kernel
from penstock.logs import json_lines, parquet
from penstock.logs.base import MALFORMED, Log
from penstock.model.expressions.casts import cast_value
from penstock.model.types import Schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamReader

FORMATS = ("json", "csv", "parquet")
#: The column with the names of files that the tasks read themselves.
PATH = "__path"
_FILE = "path string, modificationTime timestamp, length bigint, content binary"


@dataclass(frozen=True, repr=False)
class Files(Log):
    """A directory of files. A file must appear whole: write it elsewhere and move it in.

    Its name must not hold «*», «?», «[» or «{»: Spark takes such a name for a pattern, and reads neighbours twice.
    """

    path: str
    format: str = "json"
    header: bool = False
    delimiter: str = ","
    files_per_epoch: int | None = None

    def read(self, spark: SparkSession, schema: Schema, columns: Sequence[str]) -> DataFrame:
        from pyspark.sql import functions as f

        if "://" not in self.path and not Path(self.path).is_dir():
            raise DefinitionError(f"there is no directory «{self.path}»", hint="create it, or give another path")
        if self.decodes(schema.pick(columns)):
            found = self._reader(spark).format("binaryFile").schema(_FILE).load(self.path)
            return found.select(f.col("path").alias(PATH))  # what is in it Spark does not read
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
        """Local files of plain types are read in the tasks: rows that pass through Java come slower."""
        if "://" in self.path or not schema.names:
            return False
        if self.format == "parquet":
            return all(is_of_kernel(kind) for _, kind in schema)
        return self.format == "json" and json_lines.reads(schema)

    def frames(self, rows: pl.DataFrame, schema: Schema) -> Iterator[pl.DataFrame]:
        if PATH not in rows.columns:
            yield rows
            return
        read = parquet.read_file if self.format == "parquet" else json_lines.read_file
        for path in rows[PATH]:
            local = path.removeprefix("file:")
            told = _in_path(local, schema)
            for frame in read(local, schema):
                yield frame.with_columns(told) if told else frame

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


def _in_path(path: str, schema: Schema) -> list[pl.Expr]:
    """The columns that the names of directories tell, as in «date=2024-05-01»."""
    found = []
    for name, text in re.findall(r"([^/=]+)=([^/]*)/", path):
        if name in schema.names:
            value = None if text == "__HIVE_DEFAULT_PARTITION__" else unquote(text)
            kind = schema.type_of(name)
            found.append(pl.lit(cast_value(value, "string", kind) if value is not None else None).cast(dtype(kind)))
            found[-1] = found[-1].alias(name)
    return found
