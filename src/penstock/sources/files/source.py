"""A directory of files that grows: JSON lines, CSV or Parquet. Each file is read once.

Rows have positions by the modification times of their files, to the millisecond, and then by the files' paths. Where
a limit (`files_per_epoch`, or the run's own in bytes) separates files of the same time, Spark decides which epoch
takes which: it lists a directory in no set order. Lines of files at a URL have positions by the task that reads them.

>>> files("events", format="csv", header=True)
ps.files('events', format='csv', header=True)
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import unquote

import polars as pl
import pyarrow as pa

from penstock.errors import DefinitionError, PenstockError, RowError, unknown
from penstock.kernel.expressions import dtype, is_of_kernel
from penstock.model.expressions.casts import cast_value
from penstock.model.types import Schema, has_structs
from penstock.sources.base import ARRIVED, EXTENT, MALFORMED, PATH, REASON, ROW, SLICE, Folder, Follower, Source
from penstock.sources.files.damaged import damaged_files, dead_rows
from penstock.sources.files.follow import FilesFollower, size
from penstock.sources.files.nested import read_nested
from penstock.sources.files.parts import COMPRESSED, has_failed, is_numbered, rows_of
from penstock.sources.files.positions import shares
from penstock.sources.files.ranges import MOST, FileRange, Slices, cut, slice_count
from penstock.sources.files.text import FileLines, parsed, path_columns
from penstock.sources.formats import json_lines, lines, parquet
from penstock.sources.formats.csv import check_csv
from penstock.sources.formats.lines import MAX_LINE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamReader

    _Reader = TypeVar("_Reader", DataFrameReader, DataStreamReader)

FORMATS = ("json", "csv", "parquet")
#: By how much the bytes of compressed files are multiplied.
_PACKED: Final = 16
#: To open a file of Parquet is as much work as to read this number of bytes.
_OPENED: Final = 16 << 10
#: Spark leaves out a file that is older than the newest one by more than this; its default is a week.
_ANY_AGE: Final = "36500d"
_FILE = "path string, modificationTime timestamp, length bigint, content binary"


@dataclass(frozen=True, repr=False)
class Files(Source):
    """A directory of files. A file must appear whole: write it elsewhere and move it in.

    Its name must not hold '*', '?', '[' or '{': Spark takes such a name for a pattern, and reads neighbours twice.
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
        return str(Path(self.path).absolute()) if self._is_local else self.path

    def check(self, schema: Schema) -> None:
        if self.format == "csv":
            check_csv(schema)

    def read(self, spark: SparkSession, schema: Schema, columns: Sequence[str]) -> DataFrame:
        from pyspark.sql import functions as f

        if self._is_local and not Path(self.path).is_dir():
            raise DefinitionError(f"there is no directory '{self.path}'", hint="create it, or give another path")
        if not self._is_local:
            return self._read_by_spark(self._reader(spark), schema, columns, self.place)
        files = self._reader(spark).format("binaryFile").schema(_FILE).load(self.place)
        paths = files.select(f.col("path").alias(PATH))  # what is in it Spark does not read
        if self.decodes(schema.pick(columns)):
            return paths
        return self._parsed(paths, schema, columns)

    @property
    def _is_local(self) -> bool:
        """Whether the tasks read the files. Spark reads those at a URL."""
        return "://" not in self.path

    def _parsed(self, paths: DataFrame, schema: Schema, columns: Sequence[str], slices: Slices = ()) -> DataFrame:
        # The columns of CSV have no names, only places: all are read, and then those that are needed.
        read = schema if self.format == "csv" else schema.pick(columns)
        if self.format == "parquet":
            return read_nested(paths, read, partial(_in_path, schema=read))
        lines = FileLines(self.format, self.header, self.max_line, slices)
        rows = parsed(paths, lines, self.delimiter, read, path_columns(self.place, read))
        return rows.select(*columns, MALFORMED, REASON, EXTENT, PATH, ROW)

    def read_these(
        self, spark: SparkSession, schema: Schema, columns: Sequence[str], paths: Sequence[str]
    ) -> DataFrame:
        """The same of these files and no others."""
        if self._is_local:
            files = spark.createDataFrame([(path,) for path in paths], f"`{PATH}` string")
            return files if self.decodes(schema.pick(columns)) else self._parsed(files, schema, columns)
        places = [unquote(path) if "://" in path else f"file://{path}" for path in paths]
        return self._read_by_spark(spark.read.option("basePath", self.place), schema, columns, places)

    def cut(self, positions: Mapping[str, range], cores: int, most: int = MOST) -> Slices | None:
        """The files of an epoch in slices of at most `most` bytes, one for each task; None where Spark decides that.

        Positions of lines are bytes, unless a file has fewer positions than bytes. All files of an epoch have 2 ** 38.
        """
        if not self._is_local or self.format == "parquet":
            return None
        sizes = {path: size(path) for path in positions}
        parts = [FileRange(path) for path in sizes]
        by_number = [is_numbered(part) or len(positions[part.path]) <= sizes[part.path] for part in parts]
        parts = [replace(part, by_number=numbered) for part, numbered in zip(parts, by_number, strict=True)]
        weights = [_PACKED * sizes[part.path] if part.path.endswith(COMPRESSED) else sizes[part.path] for part in parts]
        return cut(parts, weights, slice_count(sum(weights), cores, most))

    def read_slices(self, spark: SparkSession, schema: Schema, columns: Sequence[str], slices: Slices) -> DataFrame:
        """The same as `read_these`, of files in slices."""
        numbers = spark.range(0, len(slices), 1, len(slices)).withColumnRenamed("id", SLICE)
        return numbers if self.decodes(schema.pick(columns)) else self._parsed(numbers, schema, columns, slices)

    @staticmethod
    def failed_in_part(error: BaseException) -> bool:
        """Whether an epoch failed because a part of a file could not be read. Then its files are read as a whole."""
        return has_failed(error)

    def read_around(
        self, spark: SparkSession, schema: Schema, columns: Sequence[str], paths: Sequence[str]
    ) -> DataFrame | None:
        """The same without the files that Spark fails to read, and a row for each of those; None if it reads all.

        Spark names no file in some of its errors: it is searched for by halves.
        """
        if self._is_local:
            return None
        read = partial(self.read_these, spark, schema, columns)
        damaged = dict(damaged_files(read, paths))
        if not damaged:
            return None
        dead = dead_rows(spark, damaged)
        if self.format != "parquet":  # the other rows have no files and numbers
            dead = dead.drop(PATH, ROW)
        good = [path for path in paths if path not in damaged]
        ddl = ", ".join(f"`{name}` {kind}" for name, kind in schema.pick(columns))
        rows = read(good) if good else spark.createDataFrame([], ddl)
        return rows.unionByName(dead, allowMissingColumns=True)

    def _read_by_spark(self, reader: _Reader, schema: Schema, columns: Sequence[str], paths: Any) -> DataFrame:
        from pyspark.sql import functions as f

        rows = self._configured(reader, schema, columns).load(paths)
        arrived = f.unix_millis("_metadata.file_modification_time").alias(ARRIVED)
        if self.format == "parquet":
            number = f.col("_metadata.row_index").alias(ROW)
            return rows.select(*columns, f.col("_metadata.file_path").alias(PATH), number, arrived)
        return rows.select(*columns, MALFORMED, arrived)

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
        reader = spark.readStream.option("maxFileAge", _ANY_AGE)
        if self.files_per_epoch is not None:
            return reader.option("maxFilesPerTrigger", self.files_per_epoch)
        return reader if self.bytes_per_epoch is None else reader.option("maxBytesPerTrigger", self.bytes_per_epoch)

    @property
    def unit(self) -> str | None:
        return "bytes" if self.files_per_epoch is None and self._is_local else None

    def limited(self, limit: int) -> Files:
        return replace(self, bytes_per_epoch=limit)

    def small_epoch(self, paths: Collection[str], size: int | None, schema: Schema, most: int) -> pa.Table | None:
        """Where tasks read the files, Spark has only their paths, and these are known without a job."""
        if size is None or size > most or not self.decodes(schema) or self._held(paths, size, schema, most) > most:
            return None
        return pa.table({PATH: pa.array(list(paths), pa.string())})

    def _held(self, paths: Collection[str], size: int, schema: Schema, most: int) -> int:
        """About how many bytes files hold, as far as a limit. Of Parquet only the columns that are read count."""
        if self.format != "parquet":
            return size * _PACKED if any(path.endswith(COMPRESSED) for path in paths) else size
        held = _OPENED * len(paths)
        for path in paths if held <= most else ():
            try:
                held += parquet.decoded_size(path, schema.names)
            except (OSError, pa.ArrowException):  # the file is damaged, which its reader reports
                held += size
            if held > most:
                break
        return held

    def follow(self, checkpoint: Folder) -> Follower:
        return FilesFollower(checkpoint / "sources" / "0", self.small_epoch, is_local=self._is_local)

    def positions(self, paths: Sequence[str], space: range) -> dict[str, range]:
        """The positions of the rows of these files, in this order."""
        return shares(paths, [size(path) for path in paths], space)

    def decodes(self, schema: Schema) -> bool:
        """Local files of plain types are read in the tasks: rows that pass through Java come slower."""
        if not self._is_local or not schema.names:
            return False
        if self.format == "parquet":
            return all(is_of_kernel(kind) and not has_structs(kind) for _, kind in schema)
        return self.format == "json" and json_lines.reads(schema)

    def frames(self, rows: pl.DataFrame, schema: Schema) -> Iterator[pl.DataFrame]:
        if not self.decodes(schema):
            yield rows
            return
        yield from self.part_frames((FileRange(path.removeprefix("file:")) for path in rows[PATH]), schema)

    def part_frames(self, parts: Iterable[FileRange], schema: Schema) -> Iterator[pl.DataFrame]:
        """The rows of files and of parts, where they are read in the tasks."""
        for part in parts:
            verify = None
            if self.format == "parquet":
                verify = partial(parquet.verify, part.path, schema)
            elif is_numbered(part):
                verify = partial(lines.verify, part.path)
            yield from rows_of(part, self._rows(part, schema), verify)

    def _rows(self, part: FileRange, schema: Schema) -> Iterator[pl.DataFrame]:
        in_path = _in_path(part.path, schema)
        if self.format == "parquet":
            frames = parquet.read_file(part.path, schema)
        else:
            frames = json_lines.read_file(part.path, schema, self.max_line, part.start, part.end)
        for frame in frames:
            yield frame.with_columns(in_path) if in_path else frame

    def __repr__(self) -> str:
        arguments = [repr(self.path), f"format={self.format!r}"]
        arguments += [f"header={self.header}"] if self.header else []
        arguments += [f"delimiter={self.delimiter!r}"] if self.delimiter != "," else []
        arguments += [f"files_per_epoch={self.files_per_epoch}"] if self.files_per_epoch is not None else []
        arguments += [f"max_line={self.max_line}"] if self.max_line != MAX_LINE else []
        return f"ps.files({', '.join(arguments)})"


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
        raise DefinitionError(
            f"max_line must be above zero, and is {max_line}", hint="the most bytes that a line may have"
        )
    return Files(str(path), format, header, delimiter, files_per_epoch, max_line)


def _in_path(path: str, schema: Schema) -> list[pl.Expr]:
    """The columns that the names of directories tell, as in 'date=2024-05-01'."""
    expressions = []
    for name, text in re.findall(r"([^/=]+)=([^/]*)/", path):
        if name in schema.names:
            value = None if text == "__HIVE_DEFAULT_PARTITION__" else unquote(text)
            kind = schema.type_of(name)
            try:
                fitted = None if value is None else cast_value(value, "string", kind)
            except RowError as error:
                raise PenstockError(f"the directory '{name}={text}' does not fit {kind}: {error.message}") from None
            expressions.append(pl.lit(fitted).cast(dtype(kind)).alias(name))
    return expressions
