"""Keys as bytes: equal bytes exactly for equal keys, which SQLite's own comparison does not give.

SQLite never finds a null key again and has no NaN. Here every key column is a tag (null or not) and a value: numbers
in their width, −0.0 as 0.0 and every NaN as one; text and bytes by their length, which stands in front, and then
themselves. The tags, numbers and lengths of all columns come first, so that whole columns are encoded at once.

>>> frame = pl.DataFrame({"k": ["a", None, ""], "n": [1, 1, None]})
>>> [key.hex() for key in encoded(frame)]
['010100000001010000000000000061', '0000000000010100000000000000', '0100000000000000000000000000']
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from penstock.store.encode import stored

_WIDTHS: Final[dict[pl.DataType, str]] = {
    pl.Int8(): "<i1", pl.Int16(): "<i2", pl.Int32(): "<i4", pl.Int64(): "<i8",
    pl.Boolean(): "<i1", pl.Date(): "<i4", pl.Datetime("us", "UTC"): "<i8",
    pl.Float32(): "<i4", pl.Float64(): "<i8",
}  # fmt: skip


def encoded(keys: pl.DataFrame) -> pl.Series:
    """The key of each row, as bytes. A frame without columns has no rows to encode."""
    parts: list[tuple[str, str, Any]] = []
    texts: list[Any] = []
    for number, series in enumerate(keys.get_columns()):
        parts.append((f"tag{number}", "u1", series.is_not_null().to_numpy()))
        width = _WIDTHS.get(series.dtype)
        if width is not None:
            parts.append((f"value{number}", width, _number(series).to_numpy()))
        else:
            text = stored(series).cast(pl.Binary).fill_null(b"")
            parts.append((f"length{number}", "<u4", text.bin.size().to_numpy()))
            texts.append(text.to_arrow().cast(pa.large_binary()))
    if not parts:
        return pl.Series("__key", [], dtype=pl.Binary)
    header = np.empty(keys.height, dtype=np.dtype([(name, kind) for name, kind, _ in parts]))
    for name, _, values in parts:
        header[name] = values
    size = header.dtype.itemsize
    heads = pa.FixedSizeBinaryArray.from_buffers(pa.binary(size), keys.height, [None, pa.py_buffer(header)])
    heads = heads.cast(pa.large_binary())
    if texts:
        heads = pc.binary_join_element_wise(heads, *texts, pa.scalar(b"", pa.large_binary()))
    return pl.Series("__key", heads, dtype=pl.Binary)


def _number(series: pl.Series) -> pl.Series:
    """A column of numbers as whole numbers without nulls."""
    if series.dtype.is_float():
        series = series.fill_nan(float("nan"))
        series = stored(series.set(series == 0, 0.0))
    return series.to_physical().cast(pl.Int64).fill_null(0)
