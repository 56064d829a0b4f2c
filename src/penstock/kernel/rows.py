"""Rows of scalars as bytes, all at once: a head of fixed size for each row, and the texts that follow the heads.

A head has, column by column, a tag (0: null) and then a whole number in its width, or the length of a text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import polars as pl
import pyarrow as pa

from penstock.kernel.scalars import is_whole, loaded_scalar, stored_scalar

Bytes: TypeAlias = np.ndarray[Any, np.dtype[np.uint8]]
Numbers: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]

_BYTES = {pl.Int8: 1, pl.Int16: 2, pl.Int32: 4, pl.Int64: 8, pl.Boolean: 1, pl.Date: 4, pl.Float32: 4, pl.Float64: 8}


def head_type(kinds: Sequence[pl.DataType]) -> np.dtype[Any]:
    """The layout of a head."""
    parts = []
    for number, kind in enumerate(kinds):
        size = f"<i{_BYTES.get(kind.base_type(), 8)}" if is_whole(kind) else "<u4"
        parts += [(f"tag{number}", "u1"), (f"value{number}", size)]
    return np.dtype(parts)


def split(columns: Sequence[pl.Series]) -> tuple[np.ndarray[Any, Any], list[pa.Array]]:
    """The heads of rows, and the columns of text that follow them."""
    heads = np.empty(len(columns[0]), dtype=head_type([series.dtype for series in columns]))
    texts = []
    for number, series in enumerate(columns):
        heads[f"tag{number}"] = series.is_not_null().to_numpy()
        kept = stored_scalar(series)
        if is_whole(series.dtype):
            heads[f"value{number}"] = kept.fill_null(False if kept.dtype == pl.Boolean else 0).to_numpy()
        else:
            text = kept.cast(pl.Binary).fill_null(b"")
            heads[f"value{number}"] = text.bin.size().to_numpy()
            texts.append(text.rechunk().to_arrow().cast(pa.large_binary()))
    return heads, texts


def as_binary(offsets: Numbers, data: pa.Buffer) -> pa.Array:
    """Stretches of bytes as a column."""
    ends = pa.py_buffer(np.ascontiguousarray(offsets, dtype=np.int64))
    return pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(offsets) - 1, [None, ends, data])


def join(heads: np.ndarray[Any, Any], texts: Sequence[pa.Array], kinds: Sequence[pl.DataType]) -> list[pl.Series]:
    """The columns of rows, from their heads and texts."""
    columns, left = [], iter(texts)
    for number, kind in enumerate(kinds):
        there = pl.Series(heads[f"tag{number}"] != 0)
        if is_whole(kind):
            values = pl.Series(np.ascontiguousarray(heads[f"value{number}"]))
        else:
            values = pl.Series(values=next(left), dtype=pl.Binary)
            values = values if kind == pl.Binary else values.cast(pl.String)
        kept = pl.select(pl.when(there).then(values)).to_series()
        columns.append(loaded_scalar(kept, kind).alias(f"{number}"))
    return columns
