"""A directory of files that grows: JSON lines, CSV or Parquet. Each file is read once, in the order of its time.

>>> files("events", format="csv", header=True)
ps.files('events', format='csv', header=True)
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import unquote

import polars as pl

from penstock.errors import DefinitionError, unknown
from penstock.kernel.expressions import dtype, is_of_kernel
from penstock.logs import json_lines, parquet
from penstock.logs.base import MALFORMED, Folder, Follower, Log
from penstock.logs.files_follow import FilesFollower
from penstock.model.expressions.casts import cast_value
from penstock.model.types import Schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamReader

    _Reader = TypeVar("_Reader", DataFrameReader, DataStreamReader)

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
    bytes_per_epoch: int | None = None  # the run's own limit, which no one says

    @property
    def place(self) -> str:
        """Where it is, also for Spark, whose Java may have been started elsewhere."""
        return self.path if "://" in self.path else str(Path(self.path).absolute())

    def read(self, spark: SparkSession, schema: Schema, columns: Sequence[str]) -> DataFrame:
        from pyspark.sql import functions as f

        if "://" not in self.path and not Path(self.path).is_dir():
            raise DefinitionError(f"there is no directory «{self.path}»", hint="create it, or give another path")
        if self.decodes(schema.pick(columns)):
            found = self._reader(spark).format("binaryFile").schema(_FILE).load(self.place)
            return found.select(f.col("path").alias(PATH))  # what is in it Spark does not read
        parsed = [MALFORMED] if self.format != "parquet" else []
        return self._configured(self._reader(spark), schema, columns).load(self.place).select(*columns, *parsed)

    def read_these(
        self, spark: SparkSession, schema: Schema, columns: Sequence[str], paths: Sequence[tuple[str, int]]
    ) -> DataFrame:
        """The same of these files and no others, in this order; each stands beside the epoch that read it."""
        from pyspark.sql import functions as f

        if self.decodes(schema.pick(columns)):
            return spark.createDataFrame([(path,) for path, _ in paths], f"`{PATH}` string")
        parsed = [MALFORMED] if self.format != "parquet" else []
        reader = self._configured(spark.read, schema, columns).option("basePath", self.place)
        rows = reader.load([path for path, _ in paths])
        rows = rows.select(*columns, *parsed, f.expr("url_decode(_metadata.file_path)").alias(PATH))
        named = [(path if "://" in path else f"file://{path}", epoch) for path, epoch in paths]
        epochs = spark.createDataFrame(named, f"`{PATH}` string, __epoch bigint")
        number = f.monotonically_increasing_id()  # a partition's number, and 33 bits for the row in it
        row = f.shiftleft(f.shiftright(number, 33), 26) + number.bitwiseAND(f.lit((1 << 26) - 1))
        rows = rows.withColumn("__row", row).join(f.broadcast(epochs), PATH)
        place = {"__partition": f.lit(0).cast("int"), "__offset": f.shiftleft("__epoch", 38) + f.col("__row")}
        return rows.withColumns(place).drop(PATH, "__epoch", "__row")

    def _configured(self, reader: _Reader, schema: Schema, columns: Sequence[str]) -> _Reader:
        parsed = self.format != "parquet"
        # The columns of CSV have no names, only places: all are read, and then those that are needed.
        there = schema.names if self.format == "csv" else columns
        ddl = ", ".join(f"`{name}` {schema.type_of(name)}" for name in there)
        reader = reader.schema(f"{ddl}, `{MALFORMED}` string" if parsed else ddl)
        if parsed:
            reader = reader.option("mode", "PERMISSIVE").option("columnNameOfCorruptRecord", MALFORMED)
        if self.format == "csv":
            reader = reader.option("header", self.header).option("sep", self.delimiter)
        return reader.format(self.format)

    def _reader(self, spark: SparkSession) -> DataStreamReader:
        reader = spark.readStream
        if self.files_per_epoch is not None:
            return reader.option("maxFilesPerTrigger", self.files_per_epoch)
        return reader if self.bytes_per_epoch is None else reader.option("maxBytesPerTrigger", self.bytes_per_epoch)

    @property
    def unit(self) -> str | None:
        return "bytes" if self.files_per_epoch is None and "://" not in self.path else None

    def limited(self, limit: int) -> Files:
        return replace(self, bytes_per_epoch=limit)

    def follow(self, checkpoint: Folder) -> Follower:
        return FilesFollower(checkpoint / "sources" / "0")

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
