"""A directory of files that grows: JSON lines, CSV or Parquet. Each file is read once.

Epochs take files by their modification time. The files of one epoch, and files of the same time, have no set order:
Spark lists and packs them.

>>> files("events", format="csv", header=True)
ps.files('events', format='csv', header=True)
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import unquote

import polars as pl

from penstock.errors import DefinitionError, PenstockError, RowError, unknown
from penstock.kernel.expressions import dtype, is_of_kernel
from penstock.logs import json_lines, lines, parquet
from penstock.logs.base import EXTENT, MALFORMED, REASON, Folder, Follower, Log
from penstock.logs.files_follow import FilesFollower
from penstock.logs.files_text import PATH, FileLines, parsed, told_by_directories
from penstock.logs.lines import MAX_LINE
from penstock.logs.whole import whole
from penstock.model.expressions.casts import cast_value
from penstock.model.types import Schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamReader

    _Reader = TypeVar("_Reader", DataFrameReader, DataStreamReader)

FORMATS = ("json", "csv", "parquet")
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
    max_line: int = MAX_LINE
    bytes_per_epoch: int | None = None  # the run's own limit, which no one says

    @property
    def place(self) -> str:
        """Where it is, also for Spark, whose Java may have been started elsewhere."""
        return self.path if "://" in self.path else str(Path(self.path).absolute())

    def read(self, spark: SparkSession, schema: Schema, columns: Sequence[str]) -> DataFrame:
        from pyspark.sql import functions as f

        if "://" not in self.path and not Path(self.path).is_dir():
            raise DefinitionError(f"there is no directory «{self.path}»", hint="create it, or give another path")
        if not self._in_tasks(schema.pick(columns)):
            told = [MALFORMED] if self.format != "parquet" else []
            return self._configured(self._reader(spark), schema, columns).load(self.place).select(*columns, *told)
        found = self._reader(spark).format("binaryFile").schema(_FILE).load(self.place)
        paths = found.select(f.col("path").alias(PATH))  # what is in it Spark does not read
        if self.decodes(schema.pick(columns)):
            return paths
        return self._parsed(paths, schema, columns).select(*columns, MALFORMED, REASON, EXTENT)

    def read_again(self, spark: SparkSession, schema: Schema, paths: Sequence[str]) -> DataFrame:
        """Files that could not be read, once more: as a frame that goes the way of `read`."""
        files = spark.createDataFrame([(path,) for path in paths], f"`{PATH}` string")
        if self.decodes(schema):
            return files
        return self._parsed(files, schema, schema.names).select(*schema.names, MALFORMED, REASON, EXTENT)

    def _in_tasks(self, schema: Schema) -> bool:
        """Whether tasks read the files: those of this machine, but for Parquet with types that only Spark has."""
        return self.decodes(schema) or ("://" not in self.path and self.format != "parquet")

    def _parsed(self, paths: DataFrame, schema: Schema, columns: Sequence[str]) -> DataFrame:
        # The columns of CSV have no names, only places: all are read, and then those that are needed.
        read = schema if self.format == "csv" else schema.pick(columns)
        lines = FileLines(self.format, self.header, self.max_line)
        return parsed(paths, lines, self.delimiter, read, told_by_directories(self.place, read))

    def read_these(
        self, spark: SparkSession, schema: Schema, columns: Sequence[str], paths: Sequence[tuple[str, int]]
    ) -> DataFrame:
        """The same of these files and no others, in this order; each stands beside the epoch that read it."""
        from pyspark.sql import functions as f

        if self.decodes(schema.pick(columns)):
            return spark.createDataFrame([(path,) for path, _ in paths], f"`{PATH}` string")
        named = list(paths)
        if self._in_tasks(schema.pick(columns)):
            files = spark.createDataFrame([(path,) for path, _ in paths], f"`{PATH}` string")
            rows = self._parsed(files, schema, columns).select(*columns, MALFORMED, REASON, EXTENT, PATH)
        else:
            named = [(path if "://" in path else f"file://{path}", epoch) for path, epoch in paths]
            told = [MALFORMED] if self.format != "parquet" else []
            reader = self._configured(spark.read, schema, columns).option("basePath", self.place)
            rows = reader.load([path for path, _ in paths])
            rows = rows.select(*columns, *told, f.expr("url_decode(_metadata.file_path)").alias(PATH))
        epochs = spark.createDataFrame(named, f"`{PATH}` string, __epoch bigint")
        number = f.monotonically_increasing_id()  # a partition's number, and 33 bits for the row in it
        row = f.shiftleft(f.shiftright(number, 33), 26) + number.bitwiseAND(f.lit((1 << 26) - 1))
        rows = rows.withColumn("__row", row).join(f.broadcast(epochs), PATH)
        place = {"__partition": f.lit(0).cast("int"), "__offset": f.shiftleft("__epoch", 38) + f.col("__row")}
        return rows.withColumns(place).drop(PATH, "__epoch", "__row")

    def _configured(self, reader: _Reader, schema: Schema, columns: Sequence[str]) -> _Reader:
        is_text = self.format != "parquet"
        # The columns of CSV have no names, only places: all are read, and then those that are needed.
        there = schema.names if self.format == "csv" else columns
        ddl = ", ".join(f"`{name}` {schema.type_of(name)}" for name in there)
        reader = reader.schema(f"{ddl}, `{MALFORMED}` string" if is_text else ddl)
        if is_text:
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
        for path in rows[PATH]:
            local = path.removeprefix("file:")
            check = partial(parquet.verify, local, schema) if self.format == "parquet" else partial(lines.verify, local)
            yield from whole(local, self._file(local, schema), check)

    def _file(self, path: str, schema: Schema) -> Iterator[pl.DataFrame]:
        told = _in_path(path, schema)
        if self.format == "parquet":
            frames = parquet.read_file(path, schema)
        else:
            frames = json_lines.read_file(path, schema, self.max_line)
        for frame in frames:
            yield frame.with_columns(told) if told else frame

    def __repr__(self) -> str:
        said = [repr(self.path), f"format={self.format!r}"]
        said += [f"header={self.header}"] if self.header else []
        said += [f"delimiter={self.delimiter!r}"] if self.delimiter != "," else []
        said += [f"files_per_epoch={self.files_per_epoch}"] if self.files_per_epoch is not None else []
        said += [f"max_line={self.max_line}"] if self.max_line != MAX_LINE else []
        return f"ps.files({', '.join(said)})"


def files(
    path: str | Path,
    *,
    format: str = "json",
    header: bool = False,
    delimiter: str = ",",
    files_per_epoch: int | None = None,
    max_line: int = MAX_LINE,
) -> Files:
    """A directory of files that grows. `files_per_epoch` bounds what one epoch takes.

    A line of more than `max_line` bytes is a dead letter, of which the beginning is kept.
    """
    if format not in FORMATS:
        raise unknown("file format", format, FORMATS)
    if files_per_epoch is not None and files_per_epoch < 1:
        raise DefinitionError(f"files_per_epoch must be above zero, and is {files_per_epoch}")
    if max_line < 1:
        raise DefinitionError(f"max_line must be above zero, and is {max_line}", hint="so many bytes a line may have")
    return Files(str(path), format, header, delimiter, files_per_epoch, max_line)


def _in_path(path: str, schema: Schema) -> list[pl.Expr]:
    """The columns that the names of directories tell, as in 'date=2024-05-01'."""
    found = []
    for name, text in re.findall(r"([^/=]+)=([^/]*)/", path):
        if name in schema.names:
            value = None if text == "__HIVE_DEFAULT_PARTITION__" else unquote(text)
            kind = schema.type_of(name)
            try:
                made = None if value is None else cast_value(value, "string", kind)
            except RowError as error:
                raise PenstockError(f"the directory '{name}={text}' does not fit {kind}: {error.message}") from None
            found.append(pl.lit(made).cast(dtype(kind)).alias(name))
    return found
