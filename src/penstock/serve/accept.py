"""Validates events before they are accepted: JSON lines or Arrow, row by row against the stream's columns."""

from __future__ import annotations

import json
import struct
import threading
from dataclasses import dataclass
from typing import Any, Final

import polars as pl
import pyarrow as pa

from penstock.kernel.expressions import dtype
from penstock.model.types import Schema
from penstock.serve.errors import Answered
from penstock.sources import MALFORMED, REASON
from penstock.sources.formats import json_lines
from penstock.sources.formats.lines import LINE, MAX_LINE, texts

#: How many lines that do not fit are named, and how many characters of each are shown.
_NAMED, _SHOWN = 20, 200
#: One at a time: the parser has threads of its own.
_PARSING: Final = threading.Lock()


@dataclass(frozen=True)
class ParsedEvents:
    """The rows of a body: the stream's columns, and `MALFORMED` with the text of lines that do not fit."""

    rows: pl.DataFrame
    malformed: int = 0


def from_lines(body: bytes, schema: Schema, keep_malformed: bool, most: int) -> ParsedEvents:
    """One JSON object a line. A line that does not fit is rejected with its number, or kept as a dead letter."""
    if body.count(b"\n") > most:
        raise _too_many(most)
    lines = texts(body, MAX_LINE).with_row_index("number", offset=1).filter(pl.col(LINE).str.strip_chars() != "")
    if not lines.height:
        raise Answered(422, "there are no events in the body", hint="send one JSON object a line")
    with _PARSING:
        rows = json_lines.decoded(lines[LINE], schema, blank=True, reasons=lines[REASON])
    bad = rows[MALFORMED].is_not_null().arg_true().to_list()
    if bad and not keep_malformed:
        raise Answered(
            422, f"{len(bad)} of {lines.height} lines do not fit the stream's columns",
            detail=schema.ddl(), hint="mend them, or send ?malformed=keep to have them among the dead letters",
            more={"lines": [_line(lines["number"][n], rows[MALFORMED][n], rows[REASON][n]) for n in bad[:_NAMED]]},
        )  # fmt: skip
    return ParsedEvents(rows, len(bad))


def one_event(body: bytes) -> bytes:
    """A body that is one JSON object, on any number of lines, as one line."""
    try:
        event = json.loads(body)
    except (ValueError, RecursionError):
        event = None
    if not isinstance(event, dict):
        raise Answered(422, "the body is not a JSON object", hint="send lines of them as application/x-ndjson")
    return body.replace(b"\r", b" ").replace(b"\n", b" ")  # only between its parts: in text they are escaped


def _line(number: int, text: str, reason: str | None) -> dict[str, Any]:
    return {"line": number, "text": text[:_SHOWN], **({} if reason is None else {"reason": reason})}


def _too_many(most: int) -> Answered:
    return Answered(413, f"more than {most} events in one request", hint="send them in parts")


# Arrow


def from_arrow(body: bytes, schema: Schema, most: int) -> ParsedEvents:
    """A stream of Arrow's, with the columns of the stream by name; those that are missing are null."""
    try:
        batches = list(_batches(body, most))
        table = pa.Table.from_batches(batches)
        table.validate(full=True)
    except (pa.ArrowException, ValueError, OSError, struct.error, IndexError) as error:
        reason = (str(error).splitlines() or [""])[0][:_SHOWN]
        raise Answered(422, "the body is not an Arrow stream", detail=reason) from None
    if not table.num_rows:
        raise Answered(422, "there are no events in the body")
    columns = [_column(table, name, kind) for name, kind in schema]
    none = [pl.lit(None, pl.String).alias(name) for name in (MALFORMED, REASON)]
    return ParsedEvents(pl.DataFrame(columns, height=table.num_rows).with_columns(none))


def _batches(body: bytes, most: int) -> Any:
    """The batches of the body. Compressed data and dictionaries are rejected: they would grow when read."""
    rows = 0
    for message in pa.ipc.MessageReader.open_stream(pa.BufferReader(body)):
        if message.type == "dictionary":
            raise Answered(422, "columns with dictionaries are not accepted", hint="cast them to strings")
        if message.type == "record batch" and _is_compressed(message.metadata.to_pybytes()):
            raise Answered(422, "compressed batches are not accepted", hint="write the stream without compression")
    with pa.ipc.open_stream(pa.BufferReader(body)) as reader:
        for batch in reader:
            rows += batch.num_rows
            if rows > most:
                raise _too_many(most)
            yield batch


def _is_compressed(metadata: bytes) -> bool:
    """Whether the header of a batch names a compression: the fourth field of its table."""
    message = struct.unpack_from("<I", metadata)[0]
    header = _field(metadata, message, 2)
    if header is None:
        return False
    return _field(metadata, header + struct.unpack_from("<I", metadata, header)[0], 3) is not None


def _field(data: bytes, table: int, number: int) -> int | None:
    """Where a field of a table of FlatBuffers lies, if it is there."""
    vtable = table - struct.unpack_from("<i", data, table)[0]
    if 4 + 2 * number >= struct.unpack_from("<H", data, vtable)[0]:
        return None
    offset = struct.unpack_from("<H", data, vtable + 4 + 2 * number)[0]
    return table + offset if offset else None


def _column(table: pa.Table, name: str, kind: str) -> pl.Series:
    target = dtype(kind)
    if table.schema.names.count(name) > 1:
        raise Answered(422, f"there are several columns '{name}'")
    if name not in table.schema.names:
        return pl.Series(name, [None], dtype=target).new_from_index(0, table.num_rows)
    try:
        values = pl.Series(name, pl.from_arrow(table.column(name)))
        if isinstance(target, pl.Datetime) and isinstance(values.dtype, pl.Datetime):
            values = values.dt.cast_time_unit("us")
            zone = values.dtype.time_zone if isinstance(values.dtype, pl.Datetime) else None
            return values.dt.replace_time_zone("UTC") if zone is None else values.dt.convert_time_zone("UTC")
        if not _fits(values.dtype, target):
            raise Answered(422, f"the column '{name}' is {values.dtype}, and the stream has {kind}")
        return values.cast(target)
    except (pl.exceptions.PolarsError, pa.ArrowException, ValueError) as error:
        reason = (str(error).splitlines() or [""])[0][:_SHOWN]
        raise Answered(422, f"the column '{name}' does not fit {kind}", detail=reason) from None


def _fits(dtype_: pl.DataType, target: pl.DataType) -> bool:
    return (
        dtype_ == target
        or dtype_ == pl.Null
        or (dtype_.is_integer() and (target.is_numeric()))
        or (dtype_.is_float() and target.is_float())
        or (dtype_.is_decimal() and target.is_decimal())
    )
