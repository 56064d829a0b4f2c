"""Values as answers show them: JSON with times in ISO 8601, CSV, and Arrow in the types of a view's columns.

>>> shown("2024-05-01 12:00:00.5", "timestamp"), shown(1, "boolean"), shown("[1,2]", "array<int>")
('2024-05-01T12:00:00.5Z', True, [1, 2])
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

import numpy as np
import polars as pl
import pyarrow as pa

from penstock.kernel.expressions import dtype, is_of_kernel
from penstock.model.time import BEGINNING, END, Instant, micros_of
from penstock.model.types import decimal_of, has_structs, split_types
from penstock.query.forms import csv_text, decimal_text, number
from penstock.sinks.rows import decoded
from penstock.store.present import stored_time

JSON, CSV, ARROW = "application/json", "text/csv", "application/vnd.apache.arrow.stream"
_DAY: Final = 86_400_000_000


def moment(mark: Instant | None) -> str | int | None:
    """An instant as text; None before the first and after the last. Years that text cannot hold stay microseconds."""
    if mark is None or not BEGINNING < mark < END:
        return None
    try:
        return str(iso(stored_time(mark)))
    except (OverflowError, ValueError):
        return mark


def iso(text: Any) -> Any:
    """A time of the store in ISO 8601."""
    return text.replace(" ", "T", 1) + "Z" if isinstance(text, str) else text


def shown(value: Any, kind: str) -> Any:
    """A value of the store as JSON has it."""
    if value is None:
        return None
    if kind == "timestamp":
        return iso(value)
    if kind == "boolean":
        return bool(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if kind.startswith("decimal("):
        return exact(value, kind)
    if isinstance(value, str) and kind.startswith(("array<", "struct<", "map<")):
        return inner(json.loads(value, parse_float=Decimal), kind)
    if kind == "float" and isinstance(value, float) and math.isfinite(value):
        return float(str(np.float32(value)))  # the digits that it has
    return number(value) if isinstance(value, float) else value


def exact(value: Any, kind: str) -> str:
    """A decimal with all its digits; the store has those of few digits as numbers."""
    if isinstance(value, float):
        value = Decimal(repr(value)).quantize(Decimal(1).scaleb(-decimal_of(kind)[1]))
    return decimal_text(Decimal(value))


def inner(value: Any, kind: str) -> Any:
    """A value of the store's JSON as an answer's JSON has it.

    >>> inner([Decimal("1.50"), None], "array<decimal(4,2)>"), inner([Decimal("0.5")], "array<double>")
    (['1.50', None], [0.5])
    """
    if value is None:
        return None
    head, _, parts = kind.removesuffix(">").partition("<")
    if head == "array":
        return [inner(part, parts) for part in value]
    if head == "struct":
        kinds = dict(part.strip().split(":", 1) for part in split_types(parts))
        return {name: inner(part, kinds.get(name, "string")) for name, part in value.items()}
    if head == "map":
        return {name: inner(part, split_types(parts)[1].strip()) for name, part in value.items()}
    if kind == "timestamp":
        return iso(value)
    if kind.startswith("decimal("):
        return exact(value, kind)
    return float(value) if isinstance(value, Decimal) else value


def as_json(types: Mapping[str, str], rows: Sequence[Sequence[Any]]) -> list[dict[str, Any]]:
    """Rows as objects."""
    kinds = list(types.items())
    return [
        {name: shown(value, kind) for (name, kind), value in zip(kinds, row, strict=True)} for row in rows
    ]  # fmt: skip


def as_csv(types: Mapping[str, str], rows: Sequence[Sequence[Any]]) -> bytes:
    """Rows as CSV, with a line of names."""
    kinds = list(types.values())
    ready = ([shown(value, kind) for value, kind in zip(row, kinds, strict=True)] for row in rows)
    return csv_text(list(types), ready).encode("utf-8", "replace")


def as_arrow(types: Mapping[str, str], rows: Sequence[Sequence[Any]]) -> bytes:
    """Rows as a stream of Arrow's, in the types of the columns."""
    columns = list(zip(*rows, strict=True)) or [()] * len(types)
    frame = pl.DataFrame(
        [_column(name, kind, values) for (name, kind), values in zip(types.items(), columns, strict=True)]
    )
    table = frame.to_arrow(compat_level=pl.CompatLevel.oldest())
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, table.schema) as writer:
        writer.write_table(table)
    return bytes(out.getvalue())


def _column(name: str, kind: str, values: Sequence[Any]) -> pl.Series:
    if not is_of_kernel(kind) or has_structs(kind):
        return pl.Series(name, [None if value is None else str(value) for value in values], dtype=pl.String)
    if kind == "timestamp":
        micros = [micros_of(value) if isinstance(value, str) else value for value in values]
        return pl.Series(name, micros, dtype=pl.Int64).cast(dtype(kind))
    if kind == "date":
        days = [micros_of(value) // _DAY if isinstance(value, str) else value for value in values]
        return pl.Series(name, days, dtype=pl.Int32).cast(dtype(kind))
    return pl.Series(name, [decoded(value, dtype(kind)) for value in values], dtype=dtype(kind))


def pane_values(text: str, types: Mapping[str, str]) -> Iterator[tuple[str, Any]]:
    """The keys or values of a pane of the outbox, as rows of the view's table show them."""
    for name, value in json.loads(text, parse_float=Decimal).items():
        yield name, inner(value, types.get(name, "string"))
