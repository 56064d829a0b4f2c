"""Text files whose lines Spark parses: CSV, and JSON with types that only Spark has. The tasks read the files.

So a file that is damaged, a line that is too long and one that is not UTF-8 are dead letters here too.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import polars as pl
import pyarrow as pa

from penstock.model.types import Schema
from penstock.sources.base import EXTENT, MALFORMED, PART, PATH, REASON, ROW, SLICE
from penstock.sources.files.parts import is_numbered, rows_of
from penstock.sources.files.ranges import FileRange, Slices
from penstock.sources.formats import json_lines
from penstock.sources.formats.lines import AT, LINE, read_lines, verify

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_TEXTS: Final = (LINE, REASON, EXTENT, PATH)
_FORM: Final = pa.schema([*((name, pa.string()) for name in _TEXTS), (ROW, pa.int64())])
_COLUMNS: Final = ", ".join([*(f"{name} string" for name in _TEXTS), f"{ROW} bigint"])
#: How many bytes are read at a time where a header is looked for.
_HEAD: Final = 64 << 10
#: A column that no line has: with it only the form of a line is judged.
_NOTHING: Final = Schema((("__nothing", "string"),))


@dataclass(frozen=True)
class FileLines:
    """The lines of files, in a task: names of files or numbers of slices in, lines out."""

    format: str
    header: bool
    max_line: int
    slices: Slices = ()

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for part in self._parts(batch):
                for frame in rows_of(
                    part, self._lines(part), partial(verify, part.path) if is_numbered(part) else None
                ):
                    yield from self._sent(frame)

    def _parts(self, batch: pa.RecordBatch) -> Iterator[FileRange]:
        if SLICE in batch.schema.names:
            for number in batch.column(SLICE).to_pylist():
                yield from self.slices[number]
        else:
            yield from (FileRange(path.removeprefix("file:")) for path in batch.column(PATH).to_pylist())

    def _lines(self, part: FileRange) -> Iterator[pl.DataFrame]:
        header = self._header(part.path) if self.header and self.format == "csv" else None
        for lines in read_lines(part.path, self.max_line, start=part.start, end=part.end):
            lines = lines.filter(pl.col(LINE).str.strip_chars() != "")
            lines = lines.with_columns(pl.when(pl.col(REASON).is_not_null()).then(pl.lit(PART)).alias(EXTENT))
            if header is not None:
                lines = lines.filter(pl.col(AT) != header)
            if self.format == "json" and lines.height:
                lines = _judged(lines)
            yield lines

    def _header(self, path: str) -> int | None:
        """Where the header of a file is: its first line that is not blank."""
        for lines in read_lines(path, self.max_line, block=_HEAD):
            lines = lines.filter(pl.col(LINE).str.strip_chars() != "")
            if lines.height:
                return int(lines[AT][0])
        return None

    def _sent(self, frame: pl.DataFrame) -> Iterator[pa.RecordBatch]:
        if EXTENT not in frame.columns:
            frame = frame.with_columns(pl.lit(None, pl.String).alias(EXTENT))
        sent = frame.rename({MALFORMED: LINE}, strict=False).select(_FORM.names).to_arrow().cast(_FORM)
        yield from sent.to_batches(max_chunksize=100_000)


def _judged(lines: pl.DataFrame) -> pl.DataFrame:
    """Lines that are not JSON objects get a reason: Spark would take some of them."""
    rows = json_lines.decoded(lines[LINE], _NOTHING, blank=True, reasons=lines[REASON])
    bad = pl.when(rows[MALFORMED].is_not_null()).then(pl.lit("the line is not an object of JSON"))
    return lines.with_columns(pl.coalesce(rows[REASON], bad).alias(REASON))


def parsed(paths: DataFrame, lines: FileLines, delimiter: str, schema: Schema, in_path: Sequence[str]) -> DataFrame:
    """Names of files (`PATH`), or numbers of slices, as rows of the schema.

    They have `MALFORMED`, `REASON`, `EXTENT`, `PATH` and `ROW`, too.
    The columns `in_path` are not in the files: the names of directories tell them.
    """
    from pyspark.sql import functions as f

    own = [(name, kind) for name, kind in schema if name not in in_path]
    ddl = ", ".join([*(f"`{name}` {kind}" for name, kind in own), f"`{MALFORMED}` string"])
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": MALFORMED}
    if lines.format == "csv":
        row = f.from_csv(LINE, ddl, {**options, "sep": delimiter})
    else:
        row = f.from_json(LINE, ddl, {**options, "allowSingleQuotes": "false"})
    rows = paths.mapInArrow(lines, _COLUMNS).withColumn("__row", f.when(f.col(REASON).isNull(), row))
    columns = [_from_path(name).try_cast(kind).alias(name) for name, kind in schema if name in in_path]
    bad = f.col("__row").isNull() | f.col(f"__row.{MALFORMED}").isNotNull()
    return rows.select(
        *(f.col(f"__row.`{name}`").alias(name) for name, _ in own),
        *columns,
        f.when(bad, f.col(LINE)).alias(MALFORMED),
        REASON,
        EXTENT,
        PATH,
        ROW,
    )


def _from_path(name: str) -> Column:
    """What the name of a directory says of a column."""
    from pyspark.sql import functions as f

    text = f.regexp_extract(PATH, f"/{name}=([^/]*)/", 1)
    return f.when((text != "") & (text != "__HIVE_DEFAULT_PARTITION__"), f.url_decode(text))


def path_columns(path: str, schema: Schema) -> list[str]:
    """The columns that directories below a path name, as in 'date=2024-05-01'."""
    names = set()
    for _, folders, _ in os.walk(Path(path)):
        names |= {name for folder in folders if "=" in folder and (name := folder.partition("=")[0]) in schema.names}
    return [name for name in schema.names if name in names]
