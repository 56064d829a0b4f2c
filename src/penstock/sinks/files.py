"""Sinks that are directories of files, JSON lines or Parquet: each pane is in exactly one file, whatever fails.

>>> to_jsonl("out", mode="append")
ps.to_jsonl('out', mode='append')

A file is named by the panes that it holds, `000000000101-000000000250.jsonl`, and appears whole. In the mode `complete`
each file is the whole table, and the last one the newest.
"""

from __future__ import annotations

import json
import math
from abc import abstractmethod
from base64 import b64encode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, Final

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import DefinitionError
from penstock.model.time import SECOND, instant, show_instant
from penstock.sinks.base import Batch, Mode, OpenSink, Sink, Target, above_zero
from penstock.sinks.directory import Directory, files_of
from penstock.sinks.rows import Row, decoder, frame_of
from penstock.store.present import JsonStyle, in_quotes, json_of

_ROWS = 100_000


@dataclass(frozen=True, repr=False)
class Files(Sink):
    """A directory of files with up to `rows_per_file` panes each."""

    directory: str
    rows_per_file: int = _ROWS

    format: ClassVar[str]

    @property
    def rows(self) -> int:
        return self.rows_per_file

    @abstractmethod
    def write(self, file: BinaryIO, rows: Sequence[Row], schema: dict[str, pl.DataType]) -> None:
        """Writes rows of these columns as one file."""

    def open(self, target: Target) -> OpenSink:
        return _Writing(self, target)

    def __repr__(self) -> str:
        arguments = [f"rows_per_file={self.rows_per_file}"] if self.rows_per_file != _ROWS else []
        return self.show(f"to_{self.format}", repr(self.directory), *arguments)


class _Writing(OpenSink):
    def __init__(self, sink: Files, target: Target) -> None:
        owner = {
            "sink": target.delivery_name,
            "mode": sink.mode,
            "format": sink.format,
            "keys": target.key_names,
            "values": target.value_types,
        }
        self._sink, self._schema = sink, decoder(target.definition).schema(sink.mode)
        self._directory = Directory(
            Path(sink.directory), sink.format, owner, target.outbox,
            about={"view": target.view}, check_owner=target.check_owner, takes_over=target.takes_over,
        )  # fmt: skip
        self.position = self._directory.position

    def take(self, batch: Batch) -> None:
        def write(file: BinaryIO) -> None:
            self._sink.write(file, batch.rows, self._schema)

        self._directory.write(batch.first, batch.last, write)
        self.position = self._directory.position

    def close(self) -> None:
        self._directory.close()


# JSON lines


@dataclass(frozen=True, repr=False)
class Jsonl(Files):
    """One JSON object a line. Timestamps and dates are ISO text, decimals text, binary base64, NaN the text 'NaN'."""

    format: ClassVar[str] = "jsonl"

    def write(self, file: BinaryIO, rows: Sequence[Row], schema: dict[str, pl.DataType]) -> None:
        file.write(_lines(json_of(frame_of(rows, schema), JSON)))


def _lines(texts: pl.Series) -> memoryview:
    """Texts as lines, in one piece: Arrow has them one behind the other."""
    lines = texts.to_frame("line").select(pl.concat_str("line", pl.lit("\n"))).to_series().to_arrow()
    lines = pc.cast(lines, pa.large_string())
    _, offsets, characters = lines.buffers()
    places = memoryview(offsets).cast("q") if offsets else [0]
    first, last = places[lines.offset], places[lines.offset + len(lines)]
    return memoryview(characters or b"")[first:last]


def _time(value: pl.Expr, kind: pl.DataType) -> pl.Expr:
    """A date or a timestamp as ISO text; in years that Python does not know as a number."""
    if kind == pl.Date:
        number, text, low, high = value.to_physical(), value.dt.to_string("%Y-%m-%d"), date.min, date.max
    else:
        number, low, high = value.to_physical(), datetime.min, datetime.max
        parts = (number % SECOND).cast(pl.String).str.zfill(6).str.strip_chars_end("0")
        parts = pl.when(parts == "").then(pl.lit("Z")).otherwise(pl.concat_str(pl.lit("."), parts, pl.lit("Z")))
        text = pl.concat_str(value.dt.to_string("%Y-%m-%dT%H:%M:%S"), parts)
    known = number.is_between(pl.lit(low).cast(kind).to_physical(), pl.lit(high).cast(kind).to_physical())
    return pl.when(known).then(in_quotes(text)).otherwise(number.cast(pl.String))


#: What `plain` makes of a value, for columns.
JSON: Final = JsonStyle(", ", ": ", time=_time, decimal=lambda value: in_quotes(value.cast(pl.String)))


def plain(value: Any) -> Any:
    """A value in what JSON knows, without losing a digit.

    >>> plain({"at": datetime(2024, 5, 1, 12), "x": [float("nan"), Decimal("1.10")]})
    {'at': '2024-05-01T12:00:00Z', 'x': ['NaN', '1.10']}
    """
    if isinstance(value, dict):
        return {name: plain(part) for name, part in value.items()}
    if isinstance(value, list):
        return [plain(part) for part in value]
    if isinstance(value, datetime):
        return show_instant(instant(value))
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, bytes):
        return b64encode(value).decode()
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return str(value) if isinstance(value, Decimal) else value


def read_jsonl(directory: str | Path) -> Iterator[Row]:
    """The rows in a directory of `to_jsonl`, in the order in which they fired, as JSON has them."""
    for _, _, path in files_of(directory):
        with path.open(encoding="utf-8") as lines:
            yield from map(json.loads, lines)


# Parquet


@dataclass(frozen=True, repr=False)
class Parquet(Files):
    """Columns with the types of the view; timestamps in UTC."""

    format: ClassVar[str] = "parquet"

    def write(self, file: BinaryIO, rows: Sequence[Row], schema: dict[str, pl.DataType]) -> None:
        frame_of(rows, schema).write_parquet(file)


# What a user writes


def to_jsonl(directory: str | Path, *, rows_per_file: int = _ROWS, mode: Mode = "panes") -> Jsonl:
    """Files of JSON lines in a directory of their own, each pane in exactly one."""
    return Jsonl(*_given(directory, rows_per_file), mode=mode)


def to_parquet(directory: str | Path, *, rows_per_file: int = _ROWS, mode: Mode = "panes") -> Parquet:
    """Parquet files in a directory of their own, each pane in exactly one."""
    return Parquet(*_given(directory, rows_per_file), mode=mode)


def _given(directory: str | Path, rows_per_file: int) -> tuple[str, int]:
    if not isinstance(directory, (str, Path)) or not str(directory) or "://" in str(directory):
        raise DefinitionError(f"not a directory of this machine: {directory!r}", hint="give a path, 'out/trending'")
    above_zero(rows_per_file, "rows_per_file")
    return str(directory), rows_per_file
