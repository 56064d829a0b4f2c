"""Keys as bytes: equal bytes exactly for equal keys, which SQLite's own comparison does not give.

SQLite never finds a null key again and has no NaN. Here a key is the head of its row, with −0.0 as 0.0 and every NaN
as one, and then its texts; their lengths are in the head, so that neighbouring values cannot be confused.

>>> frame = pl.DataFrame({"k": ["a", None, ""], "n": [1, 1, None]})
>>> [key.hex() for key in encoded(frame)]
['010100000001010000000000000061', '0000000000010100000000000000', '0100000000000000000000000000']
"""

from __future__ import annotations

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from penstock.kernel.nested import packed
from penstock.kernel.rows import as_binary, split


def encoded(keys: pl.DataFrame) -> pl.Series:
    """The key of each row, as bytes. A frame without columns has no rows to encode."""
    if not keys.height:
        return pl.Series("__key", [], dtype=pl.Binary)
    heads, texts = split([canonical(series) for series in keys.get_columns()])
    key = as_binary(np.arange(keys.height + 1) * heads.dtype.itemsize, pa.py_buffer(heads))
    if texts:
        key = pc.binary_join_element_wise(key, *texts, pa.scalar(b"", pa.large_binary()))
    return pl.Series("__key", key, dtype=pl.Binary)


def canonical(series: pl.Series) -> pl.Series:
    """A column in which equal values have equal bits: lists and structs as bytes, one NaN and one zero."""
    if series.dtype.is_nested():
        return packed(series)
    if series.dtype.is_float():
        series = series.fill_nan(float("nan"))
        return series.set(series == 0, 0.0)
    return series
