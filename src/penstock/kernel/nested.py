"""Lists and structs as bytes, a row of state each.

Lists of scalars, and of structs of scalars, are packed for all rows at once: the number of elements, their heads
(`rows`), and then their texts, column by column. What is nested deeper goes row by row through MessagePack.

>>> packed(pl.Series([[1, 2], None], dtype=pl.List(pl.Int8()))).to_list()
[b'\\x02\\x00\\x00\\x00\\x01\\x01\\x01\\x02', None]
"""

from __future__ import annotations

import msgpack
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from penstock.kernel.rows import Bytes, Numbers, as_binary, head_type, join, split
from penstock.kernel.scalars import is_wide

_EMPTY = pa.scalar(b"", pa.large_binary())


def packed(series: pl.Series) -> pl.Series:
    """A column of lists or structs as bytes."""
    if not _is_flat(series.dtype):
        values = series.cast(_plain(series.dtype)).to_list()
        return pl.Series(series.name, [None if v is None else msgpack.packb(v) for v in values], dtype=pl.Binary)
    sizes = series.list.len().fill_null(0).cast(pl.Int64).to_numpy()
    elements = series.explode(empty_as_null=False, keep_nulls=False)
    bounds = _bounds(sizes)
    blocks = [as_binary(np.arange(len(sizes) + 1) * 4, pa.py_buffer(sizes.astype("<u4")))]
    if len(elements):
        heads, texts = split(_columns(elements))
        blocks.append(as_binary(bounds * heads.dtype.itemsize, pa.py_buffer(heads)))
        for text in texts:
            blocks.append(as_binary(_offsets(text)[bounds], text.buffers()[2]))
    joined = pl.Series(series.name, pc.binary_join_element_wise(*blocks, _EMPTY), dtype=pl.Binary)
    return pl.select(pl.when(series.is_not_null()).then(joined).alias(series.name)).to_series()


def unpacked(series: pl.Series, kind: pl.DataType) -> pl.Series:
    """The column as it was."""
    if not _is_flat(kind):
        values = [None if data is None else msgpack.unpackb(data) for data in series.to_list()]
        return pl.Series(series.name, values, dtype=_plain(kind)).cast(kind)
    binary = series.fill_null(b"\0\0\0\0").rechunk().to_arrow().cast(pa.large_binary())
    data = np.frombuffer(binary.buffers()[2], dtype=np.uint8)
    starts = _offsets(binary)[:-1]
    sizes = data[starts[:, None] + np.arange(4)].copy().view("<u4").ravel().astype(np.int64)
    kinds = _kinds(kind)
    layout = head_type(kinds)
    bounds = _bounds(sizes)
    within = np.arange(bounds[-1]) - np.repeat(bounds[:-1], sizes)
    places = np.repeat(starts + 4, sizes) + within * layout.itemsize
    heads = data[places[:, None] + np.arange(layout.itemsize)].copy().view(layout).ravel()
    texts, block = [], starts + 4 + sizes * layout.itemsize
    for number, part in enumerate(kinds):
        if head_type([part])[1].kind == "u":
            text, block = _texts(data, heads[f"value{number}"].astype(np.int64), block, sizes, bounds)
            texts.append(text)
    elements = _elements(join(heads, texts, kinds), kind) if bounds[-1] else None
    return _lists(series, kind, bounds, elements)


def _texts(data: Bytes, lengths: Numbers, block: Numbers, sizes: Numbers, bounds: Numbers) -> tuple[pa.Array, Numbers]:
    """One column of texts of all elements, and where the next column begins in each row."""
    ends = _bounds(lengths)
    shift = np.repeat(block - ends[bounds[:-1]], sizes)  # from the place among all texts to the place in the data
    places = np.arange(ends[-1]) + np.repeat(shift, lengths)
    return as_binary(ends, pa.py_buffer(data[places])), block + ends[bounds[1:]] - ends[bounds[:-1]]


def _lists(series: pl.Series, kind: pl.DataType, bounds: Numbers, elements: pl.Series | None) -> pl.Series:
    assert isinstance(kind, pl.List)
    if elements is None:
        lists = pl.Series(series.name, [[]], dtype=kind).new_from_index(0, len(series))
    else:
        flat = elements.rechunk().to_arrow()
        made = pa.LargeListArray.from_arrays(pa.array(bounds, pa.int64()), flat)
        lists = pl.Series(series.name, made).cast(kind)
    return pl.select(pl.when(series.is_not_null()).then(lists).alias(series.name)).to_series()


def _is_flat(kind: pl.DataType) -> bool:
    """Whether it is a list of scalars or of structs of scalars."""
    return isinstance(kind, pl.List) and not any(part.is_nested() for part in _kinds(kind))


def _kinds(kind: pl.DataType) -> list[pl.DataType]:
    """The columns of a list's elements. A struct has one more: whether it is there."""
    assert isinstance(kind, pl.List)
    inner = kind.inner
    if isinstance(inner, pl.Struct):
        return [pl.Boolean(), *(part.dtype for part in inner.fields)]  # type: ignore[list-item]
    return [inner]  # type: ignore[list-item]


def _columns(elements: pl.Series) -> list[pl.Series]:
    if elements.dtype == pl.Struct:
        return [elements.is_not_null(), *elements.struct.unnest().get_columns()]
    return [elements]


def _elements(columns: list[pl.Series], kind: pl.DataType) -> pl.Series:
    """The elements again, from their columns."""
    assert isinstance(kind, pl.List)
    if not isinstance(kind.inner, pl.Struct):
        return columns[0]
    there, *parts = columns
    named = [series.alias(part.name) for series, part in zip(parts, kind.inner.fields, strict=True)]
    structs = pl.DataFrame(named).to_struct()
    return structs if there.all() else pl.select(pl.when(there).then(structs)).to_series()


def _bounds(sizes: Numbers) -> Numbers:
    """Where each stretch of these sizes begins, and the last one ends."""
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(sizes, dtype=np.int64)])


def _offsets(array: pa.Array) -> Numbers:
    """Where each value of a column of bytes begins in its buffer."""
    ends: Numbers = np.frombuffer(array.buffers()[1], dtype=np.int64)
    return ends[array.offset : array.offset + len(array) + 1]


def _plain(kind: pl.DataType) -> pl.DataType:
    """The type that holds the same values in what MessagePack knows."""
    if isinstance(kind, pl.List):
        return pl.List(_plain(kind.inner))  # type: ignore[arg-type]
    if isinstance(kind, pl.Struct):
        return pl.Struct({part.name: _plain(part.dtype) for part in kind.fields})  # type: ignore[arg-type]
    if is_wide(kind):
        return pl.String()
    if kind == pl.Date:
        return pl.Int32()
    return pl.Int64() if isinstance(kind, pl.Datetime) else kind
