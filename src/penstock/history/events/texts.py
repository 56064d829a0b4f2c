"""Erasures in rows that are kept as text: refused ones, in the store and among the dead letters.

What is not a JSON object tells nothing of its columns, and stays.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, Final

import polars as pl

from penstock.errors import RowError
from penstock.kernel.elements import compiled
from penstock.kernel.expressions import dtype
from penstock.model.expressions import bind
from penstock.model.expressions.casts import cast_value
from penstock.model.types import Schema
from penstock.store.file import Tombstone

_PHYSICAL: Final = {"timestamp": pl.Int64(), "date": pl.Int32()}


def holds(texts: Sequence[str | None], condition: str, schema: Schema) -> pl.Series:
    """For which rows, given as JSON, a condition holds."""
    rows = [_object(text) for text in texts]
    columns = []
    for name in sorted(bind(condition, schema).columns):
        kind = schema.type_of(name)
        values = [_value(row.get(name), kind) for row in rows]
        columns.append(pl.Series(name, values, _PHYSICAL.get(kind, dtype(kind)), strict=False).cast(dtype(kind)))
    frame = pl.DataFrame(columns)
    return frame.select(compiled(condition, schema).value.fill_null(False).alias("holds"))["holds"]


def without_erased_texts(rows: pl.DataFrame, tombstones: Iterable[Tombstone], schema: Schema) -> pl.DataFrame:
    """Dead letters (`row`, `__commit`) without those that are erased."""
    for tombstone in tombstones:
        if rows.height:
            gone = holds(rows["row"].to_list(), tombstone.condition, schema) & (rows["__commit"] <= tombstone.commit)
            rows = rows.filter(~gone)
    return rows


def _object(text: str | None) -> dict[str, Any]:
    try:
        value = json.loads(text or "")
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _value(value: Any, kind: str) -> object:
    if value is None or isinstance(value, list | dict):
        return None
    text = value if isinstance(value, str) else json.dumps(value)
    try:
        return text if kind == "string" else cast_value(text, "string", kind)
    except RowError:
        return None
