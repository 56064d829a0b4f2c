"""The schema of a file, inferred from its first rows: JSON lines, CSV, Parquet or Avro, compressed or not.

>>> merged("bigint", "double"), merged("timestamp", "string"), merged("array<bigint>", "array<double>")
('double', 'string', 'array<double>')
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Final

from penstock.errors import PenstockError
from penstock.model.schemas import arrow_type
from penstock.model.types import Schema, fields_of

#: The type of a column that had no value yet.
_VOID: Final = "void"
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d{1,9})?)?(Z|[+-]\d\d:?\d\d)?")
_WHOLE = re.compile(r"[+-]?\d{1,18}")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
#: Names that an event's time often has, the likeliest first.
_TIME_NAMES: Final = ("event_time", "at", "time", "timestamp", "ts", "created_at", "datetime", "date")


@dataclass(frozen=True)
class InferredSchema:
    """What the first rows of a file show: its format, its columns, and which of them may be the event time."""

    format: str
    schema: Schema
    rows: int
    delimiter: str = ","

    @property
    def event_time(self) -> str | None:
        """The column that is most likely the event time."""
        times = [name for name, kind in self.schema if kind == "timestamp"]
        usual = [name for wanted in _TIME_NAMES for name in times if name.lower() == wanted]
        return next(iter((*usual, *times)), None)


def infer(path: Path, rows: int = 10_000) -> InferredSchema:
    """Reads the first rows of a file. All rows decide: a column that is once a text is a text."""
    if not path.is_file():
        raise PenstockError(
            f"there is no file '{path}'", hint="name a file with events: JSON lines, CSV, Parquet or Avro"
        )
    kind = format_of(path)
    if kind == "parquet":
        from pyarrow import parquet

        with parquet.ParquetFile(path) as file:
            columns = tuple((field.name, arrow_type(field.type)) for field in file.schema_arrow)
            return InferredSchema(kind, Schema(columns), file.metadata.num_rows)
    delimiter = _delimiter(path) if kind == "csv" else ","
    records = list(islice(_csv(path, delimiter) if kind == "csv" else _READERS[kind](path), rows))
    if not records:
        raise PenstockError(f"the file '{path}' has no rows", hint="name a file with at least one event")
    return InferredSchema(kind, Schema(tuple(_columns(records))), len(records), delimiter)


def format_of(path: Path) -> str:
    """The format by the file's name.

    >>> format_of(Path("events.jsonl.gz")), format_of(Path("a.CSV"))
    ('json', 'csv')
    """
    for suffix in reversed(path.suffixes):
        match suffix.lower():
            case ".json" | ".jsonl" | ".ndjson":
                return "json"
            case ".csv" | ".parquet" | ".avro":
                return suffix.lower()[1:]
    raise PenstockError(
        f"the format of '{path.name}' is unknown", hint="the name must end in .json, .jsonl, .csv, .parquet or .avro"
    )


def merged(one: str, other: str) -> str:
    """The narrowest type that has the values of both."""
    if one == other or other == _VOID:
        return one
    if one == _VOID:
        return other
    pair = {one, other}
    if pair <= {"bigint", "double"}:
        return "double"
    if pair == {"date", "timestamp"}:
        return "timestamp"
    if one.startswith("array<") and other.startswith("array<"):
        return f"array<{merged(one[6:-1], other[6:-1])}>"
    if one.startswith("struct<") and other.startswith("struct<"):
        fields: dict[str, str] = {}
        for name, kind in (*fields_of(one), *fields_of(other)):
            fields[name] = merged(fields.get(name, _VOID), kind)
        return _struct(fields)
    return "string"


def _columns(records: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    types: dict[str, str] = {}
    for record in records:
        for name, value in record.items():
            types[name] = merged(types.get(name, _VOID), _type_of(value))
    for name, kind in types.items():
        yield name, kind.replace(_VOID, "string")


def _type_of(value: Any) -> str:
    match value:
        case None:
            return _VOID
        case bool():
            return "boolean"
        case int():
            return "bigint" if -(1 << 63) <= value < 1 << 63 else "string"
        case float():
            return "double"
        case str():
            return "timestamp" if _TIME.fullmatch(value) else "date" if _DATE.fullmatch(value) else "string"
        case list():
            kind = _VOID
            for element in value:
                kind = merged(kind, _type_of(element))
            return f"array<{kind}>"
        case dict():
            return _struct({name: _type_of(part) for name, part in value.items()})
        case bytes():
            return "binary"
    return "timestamp" if hasattr(value, "hour") else "date" if hasattr(value, "year") else "string"


def _struct(fields: Mapping[str, str]) -> str:
    """A struct; text where a field's name cannot stand in one, or where there are none: it comes as JSON."""
    if not fields or not all(name.isidentifier() for name in fields):
        return "string"
    return f"struct<{','.join(f'{name}:{kind}' for name, kind in fields.items())}>"


def _text(path: Path) -> io.TextIOWrapper:
    open_file = gzip.open if path.suffix.lower() == ".gz" else io.open
    return open_file(path, "rt", encoding="utf-8-sig", errors="replace", newline="")


def _json(path: Path) -> Iterator[dict[str, Any]]:
    with _text(path) as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except ValueError as error:
                raise PenstockError(
                    f"line {number} of '{path}' is not JSON: {error}", hint="the file must have one JSON object a line"
                ) from None
            if not isinstance(row, dict):
                raise PenstockError(
                    f"line {number} of '{path}' is not an object", hint="the file must have one JSON object a line"
                )
            yield row


def _delimiter(path: Path) -> str:
    """What separates the columns of the header."""
    with _text(path) as lines:
        header = lines.readline()
    return max(",;\t|", key=header.count)


def _csv(path: Path, delimiter: str) -> Iterator[dict[str, Any]]:
    with _text(path) as lines:
        for record in csv.DictReader(lines, delimiter=delimiter):
            yield {name: _csv_value(text) for name, text in record.items() if name is not None}


def _csv_value(text: str | None) -> Any:
    if not text:
        return None
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    if _WHOLE.fullmatch(text) and not re.match(r"[+-]?0\d", text):  # 007 is a text
        return int(text)
    return float(text) if _NUMBER.fullmatch(text) and not re.match(r"[+-]?0\d", text) else text


def _avro(path: Path) -> Iterator[dict[str, Any]]:
    import fastavro

    with path.open("rb") as file:
        yield from fastavro.reader(file)  # type: ignore[misc]


_READERS: Final[Mapping[str, Callable[[Path], Iterator[dict[str, Any]]]]] = {"json": _json, "avro": _avro}
