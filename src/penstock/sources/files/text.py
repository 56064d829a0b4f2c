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
from penstock.sources.base import EXTENT, MALFORMED, PART, PATH, REASON, ROW
from penstock.sources.files.whole import whole
from penstock.sources.formats import json_lines
from penstock.sources.formats.lines import LINE, read_lines, verify

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_TEXTS: Final = (LINE, REASON, EXTENT, PATH)
_FORM: Final = pa.schema([*((name, pa.string()) for name in _TEXTS), (ROW, pa.int64())])
_COLUMNS: Final = ", ".join([*(f"{name} string" for name in _TEXTS), f"{ROW} bigint"])
#: A column that no line has: with it only the form of a line is judged.
_NOTHING: Final = Schema((("__nothing", "string"),))


@dataclass(frozen=True)
class FileLines:
    """The lines of files, in a task: names of files in, lines out."""

    format: str
    header: bool
    max_line: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for path in batch.column(PATH).to_pylist():
                local = path.removeprefix("file:")
                count = 0
                for frame in whole(local, self._lines(local), partial(verify, local)):
                    yield from self._sent(frame, local, count)
                    count += frame.height

    def _lines(self, path: str) -> Iterator[pl.DataFrame]:
        has_header = self.header and self.format == "csv"
        for lines in read_lines(path, self.max_line):
            lines = lines.filter(pl.col(LINE).str.strip_chars() != "")
            lines = lines.with_columns(pl.when(pl.col(REASON).is_not_null()).then(pl.lit(PART)).alias(EXTENT))
            if has_header and lines.height:
                lines, has_header = lines[1:], False
            if self.format == "json" and lines.height:
                lines = _judged(lines)
            yield lines

    def _sent(self, frame: pl.DataFrame, path: str, first: int) -> Iterator[pa.RecordBatch]:
        if EXTENT not in frame.columns:
            frame = frame.with_columns(pl.lit(None, pl.String).alias(EXTENT))
        numbers = pl.int_range(first, first + frame.height, dtype=pl.Int64).alias(ROW)
        frame = frame.rename({MALFORMED: LINE}, strict=False).with_columns(pl.lit(path).alias(PATH), numbers)
        sent = frame.select(_FORM.names).to_arrow().cast(_FORM)
        yield from sent.to_batches(max_chunksize=100_000)


def _judged(lines: pl.DataFrame) -> pl.DataFrame:
    """Lines that are no objects of JSON get a reason: Spark would take some of them."""
    rows = json_lines.decoded(lines[LINE], _NOTHING, blank=True, reasons=lines[REASON])
    bad = pl.when(rows[MALFORMED].is_not_null()).then(pl.lit("the line is not an object of JSON"))
    return lines.with_columns(pl.coalesce(rows[REASON], bad).alias(REASON))


def parsed(paths: DataFrame, lines: FileLines, delimiter: str, schema: Schema, in_path: Sequence[str]) -> DataFrame:
    """Names of files (`PATH`) as rows of the schema, with `MALFORMED`, `REASON`, `EXTENT`, `PATH` and `ROW`.

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
    columns = [_told(name).try_cast(kind).alias(name) for name, kind in schema if name in in_path]
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


def _told(name: str) -> Column:
    """What the name of a directory says of a column."""
    from pyspark.sql import functions as f

    text = f.regexp_extract(PATH, f"/{name}=([^/]*)/", 1)
    return f.when((text != "") & (text != "__HIVE_DEFAULT_PARTITION__"), f.url_decode(text))


def told_by_directories(path: str, schema: Schema) -> list[str]:
    """The columns that directories below a path name, as in 'date=2024-05-01'."""
    found = set()
    for _, folders, _ in os.walk(Path(path)):
        found |= {name for folder in folders if "=" in folder and (name := folder.partition("=")[0]) in schema.names}
    return [name for name in schema.names if name in found]
