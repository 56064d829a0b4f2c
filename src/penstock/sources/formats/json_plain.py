"""Lines of JSON that need no closer look: one object on each, and every value plainly of its column's type.

Arrow parses them strictly and in one pass: a member that comes twice, a value of another type, a comma too many or a
number that does not fit is an error. Then nothing is read here, and the lines get a closer look (`json_closely`).

>>> from penstock.model.types import Schema
>>> schema = Schema.parse("page string, ms bigint")
>>> plain_rows(b'{"page": "/a", "ms": 5}\\n{"page": "/b"}', 2, schema).rows()
[('/a', 5), ('/b', None)]
>>> plain_rows(b'{"page": "/a", "ms": "five"}', 1, schema) is None
True
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from penstock.kernel.expressions import dtype
from penstock.model.types import Schema

#: What Arrow reads a column as. Times are read as text, and their form is judged.
_ARROW: Final[Mapping[str, pa.DataType]] = {
    "string": pa.string(),
    "bigint": pa.int64(),
    "int": pa.int32(),
    "smallint": pa.int16(),
    "tinyint": pa.int8(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "timestamp": pa.string(),
    "date": pa.string(),
}
_INSTANT: Final = pa.timestamp("us", "UTC")
#: 'YYYY-MM-DD hh:mm:ss' and 'YYYY-MM-DD'.
_SECOND, _DAY = 19, 10
#: The length of a zone such as '+02:00'.
_ZONE: Final = 6
#: Bytes from here on are parts of longer characters.
_NOT_ASCII: Final = 0x80
#: The hours of a zone that Spark takes are less than this.
_ZONE_HOURS: Final = "18"
#: One block for Arrow: it would cut a larger one, and lines do not end where it cuts.
_BLOCK: Final = (1 << 31) - 1


_NEWLINE: Final = ord("\n")
Ends = npt.NDArray[np.int64]


class _NotPlain(Exception):
    """Some value needs a closer look."""


def takes(schema: Schema) -> bool:
    """Whether Arrow reads all types of a schema as Spark does."""
    return _options(schema) is not None


def plain_rows(text: bytes, count: int, schema: Schema) -> pl.DataFrame | None:
    """The columns of `count` lines, of which the last one has no end; None if one of them is not plain."""
    ends = np.flatnonzero(np.frombuffer(text, np.uint8) == _NEWLINE)
    table = plain_table(text, ends, schema) if len(ends) == count - 1 else None
    return None if table is None else frame_of(table, schema)


def plain_table(text: bytes, ends: Ends, schema: Schema) -> pa.Table | None:
    """The same as Arrow's columns, where the ends of all lines but the last one are known."""
    options, count = _options(schema), len(ends) + 1
    if options is None or not _is_object_per_line(text, ends):
        return None
    reading = pj.ReadOptions(use_threads=False, block_size=min(len(text) + 1, _BLOCK))
    try:
        table = pj.read_json(pa.BufferReader(text), reading, options)
        if table.num_rows != count:
            return None
        return pa.table({name: _typed(table.column(name), kind) for name, kind in schema})
    except (pa.ArrowInvalid, _NotPlain):
        return None


def frame_of(table: pa.Table, schema: Schema) -> pl.DataFrame:
    """Arrow's columns with the schema's types."""
    rows = pl.from_arrow(table)
    assert isinstance(rows, pl.DataFrame)
    others = [pl.col(name).cast(dtype(kind)) for name, kind in schema if rows.schema[name] != dtype(kind)]
    return rows.with_columns(others) if others else rows


@lru_cache(maxsize=64)
def _options(schema: Schema) -> pj.ParseOptions | None:
    """How Arrow parses lines; None where it does not read a type as Spark does."""
    if any(kind not in _ARROW for _, kind in schema):
        return None
    types = pa.schema([(name, _ARROW[kind]) for name, kind in schema])
    return pj.ParseOptions(explicit_schema=types, unexpected_field_behavior="ignore")


def _is_object_per_line(text: bytes, ends: Ends) -> bool:
    """Whether every line begins and ends like an object, in UTF-8.

    '}' and '{' follow each other only between objects, never within one. So each line holds objects that are whole, and
    if there are as many as lines, each holds one.
    """
    if text[:1] != b"{" or text[-2:].removesuffix(b"\r")[-1:] != b"}" or not _is_utf8(text):
        return False
    characters = np.frombuffer(text, np.uint8)
    if not (characters[ends + 1] == ord("{")).all():
        return False
    before = characters[ends - 1]
    if not (before == ord("}")).all():
        before = np.where(before == ord("\r"), characters[ends - 2], before)
    return bool((before == ord("}")).all())


def _is_utf8(text: bytes) -> bool:
    if text.isascii():
        return True
    try:
        text.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _typed(column: pa.ChunkedArray, kind: str) -> pa.ChunkedArray:
    """A column of its type, also if it has no value. Raises where a text may mean something else to Spark."""
    has_values = column.null_count < len(column)
    if kind == "timestamp":
        return _instants(column) if has_values else column.cast(_INSTANT)
    if kind == "date":
        if has_values and _lengths(column) != (_DAY, _DAY):
            raise _NotPlain
        return column.cast(pa.date32())
    return column


def _instants(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Texts such as '2024-05-01T12:00:00.5', all with a zone or all without one; these are in UTC."""
    shortest, _ = _lengths(column)
    if shortest < _SECOND:
        raise _NotPlain
    judged = column.slice(0, 1) if _end_alike(column) else column
    ends = pc.utf8_slice_codeunits(judged, -1, None)
    has_zones = pc.all(pc.equal(ends, "Z")).as_py() or _has_zones(judged)
    return column.cast(pa.timestamp("us", "UTC" if has_zones else None)).cast(_INSTANT)


def _end_alike(column: pa.ChunkedArray) -> bool:
    """Whether all texts end with the same characters, as many as a zone has: then one stands for all."""
    if column.null_count or column.num_chunks != 1:
        return False
    chunk = column.chunk(0)
    _, places, text = chunk.buffers()
    ends = np.frombuffer(places, np.int32)[chunk.offset + 1 : chunk.offset + len(chunk) + 1]
    characters = np.frombuffer(text, np.uint8)[ends[:, None] + np.arange(-_ZONE, 0)]
    return bool((characters == characters[0]).all() and (characters[0] < _NOT_ASCII).all())


def _has_zones(column: pa.ChunkedArray) -> bool:
    """Whether all end like '+02:00'."""
    sign, hours, colon = (pc.utf8_slice_codeunits(column, *place) for place in ((-6, -5), (-5, -3), (-3, -2)))
    there = pc.and_(pc.is_in(sign, pa.array(["+", "-"])), pc.equal(colon, ":"))
    return bool(pc.all(pc.and_(there, pc.less(hours, _ZONE_HOURS))).as_py())


def _lengths(column: pa.ChunkedArray) -> tuple[int, int]:
    bounds = pc.min_max(pc.binary_length(column))
    return bounds["min"].as_py(), bounds["max"].as_py()
