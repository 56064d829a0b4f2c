"""Answers as JSON, CSV and Arrow. Nothing is lost: each value has one form, and each column has its type.

Times are ISO 8601 in UTC. Decimals are text, whole numbers numbers. NaN and infinities are the texts Spark has for
them. Binary is base64. Arrays are arrays; structs and maps are objects.

>>> ready(pa.array([Decimal("1.50"), None])), ready(pa.array([[1.5, float("nan")]]))
(['1.50', None], [[1.5, 'NaN']])
"""

from __future__ import annotations

import base64
import csv
import io
import json
import math
from collections.abc import Iterable, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from penstock.kernel.arrow import arrow_type, spark_type
from penstock.model.time import instant
from penstock.model.types import Schema
from penstock.query.answer import Answer
from penstock.store.present import shown, stored_time


def typed(table: pa.Table) -> Answer:
    """A table that is no answer of the engine's, in Spark's types."""
    schema = Schema(tuple((field.name, spark_type(field.type)) for field in table.schema))
    return Answer(schema, table.cast(pa.schema([(name, arrow_type(kind)) for name, kind in schema])))


def rows(answer: Answer) -> list[list[Any]]:
    """The rows of an answer as JSON has them."""
    columns = [ready(column.combine_chunks()) for column in answer.table.columns]
    return [list(row) for row in zip(*columns, strict=True)]


def objects(answer: Answer) -> list[dict[str, Any]]:
    """The rows of an answer as JSON objects."""
    names = answer.schema.names
    return [dict(zip(names, row, strict=True)) for row in rows(answer)]


def csv_text(names: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Rows as CSV, with a line of names. Text that a spreadsheet would take for a formula gets a quote in front."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(names)
    writer.writerows([_cell(value) for value in row] for row in rows)
    return out.getvalue()


def arrow_stream(table: pa.Table) -> bytes:
    """A table as a stream of Arrow's; times have their zone, UTC."""
    table = with_zones(table)
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, table.schema) as writer:
        writer.write_table(table)
    return bytes(out.getvalue())


def with_zones(table: pa.Table) -> pa.Table:
    """The same table; times have their zone, UTC."""
    return table.cast(pa.schema([pa.field(field.name, zoned(field.type)) for field in table.schema]))


def zoned(kind: pa.DataType) -> pa.DataType:
    """The type with the zone that its times have."""
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", "UTC")
    if pa.types.is_list(kind):
        return pa.list_(zoned(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, zoned(field.type)) for field in kind])
    return pa.map_(zoned(kind.key_type), zoned(kind.item_type)) if pa.types.is_map(kind) else kind


def ready(array: pa.Array) -> list[Any]:
    """The values of a column as JSON has them."""
    kind = array.type
    if pa.types.is_timestamp(kind):
        return [None if text is None else f"{text.replace(' ', 'T', 1)}Z" for text in _texts(array)]
    if pa.types.is_date(kind):
        return _texts(array)
    if pa.types.is_map(kind):
        keys, items = ready(array.keys), ready(array.items)
        return [
            None if start is None else dict(zip(map(_name, keys[start:end]), items[start:end], strict=True))
            for start, end in _stretches(array)
        ]
    if pa.types.is_list(kind):
        parts = ready(array.values)
        return [None if start is None else parts[start:end] for start, end in _stretches(array)]
    if pa.types.is_struct(kind):
        names = [field.name for field in kind]
        fields = [ready(array.field(number)) for number in range(kind.num_fields)]
        there = array.is_valid().to_pylist()
        every = zip(*fields, strict=True) if fields else ((),) * len(array)
        return [dict(zip(names, row, strict=True)) if yes else None for yes, row in zip(there, every, strict=True)]
    values: list[Any] = array.to_pylist()
    if pa.types.is_decimal(kind):
        return [None if value is None else decimal_text(value) for value in values]
    if pa.types.is_float32(kind):
        return [None if value is None else number(float(str(np.float32(value)))) for value in values]
    if pa.types.is_floating(kind):
        return [None if value is None else number(value) for value in values]
    if pa.types.is_binary(kind):
        return [None if value is None else base64.b64encode(value).decode() for value in values]
    return values


def json_value(value: Any) -> Any:
    """A value of Python as JSON has it.

    >>> from datetime import UTC
    >>> json_value([datetime(2024, 5, 1, 12, tzinfo=UTC), Decimal("1.50"), b"a", float("inf")])
    ['2024-05-01T12:00:00Z', '1.50', 'YQ==', 'Infinity']
    """
    if isinstance(value, datetime):
        return f"{stored_time(instant(value)).replace(' ', 'T', 1)}Z"
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return decimal_text(value)
    if isinstance(value, float):
        return number(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, list | tuple):
        return [json_value(part) for part in value]
    return {name: json_value(part) for name, part in value.items()} if isinstance(value, dict) else value


def text_value(value: Any) -> str:
    """A value of Python as people read it in a table: as JSON has it, but times as Spark writes them.

    >>> from datetime import UTC
    >>> text_value(datetime(2024, 5, 1, 12, tzinfo=UTC)), text_value(True), text_value([1, None])
    ('2024-05-01 12:00:00', 'true', '[1, null]')
    """
    if value is None:
        return "null"
    if isinstance(value, datetime):
        return stored_time(instant(value))
    plain = json_value(value)
    return plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False)


def number(value: float) -> float | str:
    """A float as JSON has it, which knows finite ones only."""
    if math.isfinite(value):
        return value
    return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"


def decimal_text(value: Decimal) -> str:
    """All digits of a decimal, without an exponent."""
    return format(value, "f")


def _texts(array: pa.Array) -> list[str | None]:
    texts: list[str | None] = shown(pl.Series("", array)).to_list()
    return texts


def _stretches(array: pa.Array) -> Iterable[tuple[int | None, int]]:
    """Where the elements of each row begin and end; None for null."""
    offsets = array.offsets.to_pylist()
    there = array.is_valid().to_pylist()
    return [(offsets[n] if there[n] else None, offsets[n + 1]) for n in range(len(array))]


def _name(key: Any) -> str:
    return key if isinstance(key, str) else json.dumps(key)


def _cell(value: Any) -> Any:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | dict):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r") and not _is_number(value):
        return "'" + value
    return value


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
