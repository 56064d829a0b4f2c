"""Values as answers show them: JSON with times in ISO 8601, CSV, and Arrow in the types of a view's columns.

>>> shown("2024-05-01 12:00:00.5", "timestamp"), shown(1, "boolean"), shown("[1,2]", "array<int>")
('2024-05-01T12:00:00.5Z', True, [1, 2])
"""

from __future__ import annotations

import base64
import csv
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

import polars as pl
import pyarrow as pa

from penstock.kernel.expressions import dtype, is_of_kernel
from penstock.model.time import BEGINNING, END, Instant, micros_of
from penstock.model.types import decimal_of
from penstock.sinks.rows import decoded
from penstock.sql.times import store_text
from penstock.store.present import EXACT_DIGITS

JSON, CSV, ARROW = "application/json", "text/csv", "application/vnd.apache.arrow.stream"
_DAY: Final = 86_400_000_000


def moment(mark: Instant | None) -> str | int | None:
    """An instant as text; none before the first and after the last. Years that text cannot hold stay microseconds."""
    if mark is None or not BEGINNING < mark < END:
        return None
    try:
        return str(iso(store_text(mark)))
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
    if isinstance(value, str) and kind.startswith(("array<", "struct<", "map<")):
        return json.loads(value)
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    return value


def as_json(types: Mapping[str, str], rows: Sequence[Sequence[Any]]) -> list[dict[str, Any]]:
    """Rows as objects."""
    kinds = list(types.items())
    return [
        {name: shown(value, kind) for (name, kind), value in zip(kinds, row, strict=True)} for row in rows
    ]  # fmt: skip


def as_csv(types: Mapping[str, str], rows: Sequence[Sequence[Any]]) -> bytes:
    """Rows as CSV, with a line of names. Text that a spreadsheet would take for a formula gets a quote in front."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(types)
    for row in rows:
        writer.writerow(_cell(shown(value, kind)) for value, kind in zip(row, types.values(), strict=True))
    return out.getvalue().encode("utf-8", "replace")


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


def as_arrow(types: Mapping[str, str], rows: Sequence[Sequence[Any]]) -> bytes:
    """Rows as a stream of Arrow's, in the types of the columns; those without one get what their values have."""
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
    if not kind:
        return _guessed(name, values)
    if not is_of_kernel(kind):
        return pl.Series(name, [None if value is None else str(value) for value in values], dtype=pl.String)
    if kind == "timestamp":
        micros = [micros_of(value) if isinstance(value, str) else value for value in values]
        return pl.Series(name, micros, dtype=pl.Int64).cast(dtype(kind))
    if kind == "date":
        days = [micros_of(value) // _DAY if isinstance(value, str) else value for value in values]
        return pl.Series(name, days, dtype=pl.Int32).cast(dtype(kind))
    return pl.Series(name, [decoded(value, dtype(kind)) for value in values], dtype=dtype(kind))


def _guessed(name: str, values: Sequence[Any]) -> pl.Series:
    """What a question computes has the type of its values: whole numbers, numbers, bytes, or text."""
    kinds = {type(value) for value in values if value is not None}
    if kinds <= {int}:
        return pl.Series(name, values, dtype=pl.Int64)
    numbers = [float("nan") if value == "NaN" else value for value in values]
    if {type(value) for value in numbers if value is not None} <= {int, float}:
        return pl.Series(name, numbers, dtype=pl.Float64, strict=False)
    if kinds == {bytes}:
        return pl.Series(name, values, dtype=pl.Binary)
    return pl.Series(name, [None if value is None else _as_text(value) for value in values], dtype=pl.String)


def _as_text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def pane_values(text: str, types: Mapping[str, str]) -> Iterator[tuple[str, Any]]:
    """The keys or values of a pane of the outbox, as rows of the view's table show them."""
    for name, value in json.loads(text, parse_float=Decimal).items():
        kind = types.get(name, "")
        if kind == "timestamp":
            yield name, iso(value)
        elif kind.startswith("decimal(") and value is not None:
            yield name, float(value) if decimal_of(kind)[0] <= EXACT_DIGITS else str(value)
        else:
            yield name, _plain(value)


def _plain(value: Any) -> Any:
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, list):
        return [_plain(part) for part in value]
    return {name: _plain(part) for name, part in value.items()} if isinstance(value, dict) else value
