"""What tasks send to the driver: a few binary records, and in them frames of refused rows."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from typing import Any

import polars as pl
import pyarrow as pa

from penstock.logs.base import EXTENT

#: What `mapInArrow` gives: a kind, a number, and the bytes of a frame or of JSON.
RECORD = "kind string, number int, data binary"
_SCHEMA = pa.schema([("kind", pa.string()), ("number", pa.int32()), ("data", pa.binary())])


def late_reason() -> pl.Expr:
    """Why a row is late, in words."""
    some = pl.format("{} of its {} windows had closed", "__missed", "__windows")
    return pl.when(pl.col("__windows") == 1).then(pl.lit("its window had closed")).otherwise(some)


def refusals(stream: str, view: str | None, rows: pl.DataFrame, *, raw: bool = False) -> pl.DataFrame:
    """Refused rows (place, reason, the row as JSON) as store and master keep them; `raw` ones are text as it came."""
    have = rows.columns
    return rows.select(
        pl.lit(stream).alias("stream"),
        pl.lit(view, pl.String).alias("view"),
        pl.col("__partition").alias("partition"),
        pl.col("__offset").alias("offset"),
        (pl.col("__at") if "__at" in have else pl.lit(None, pl.Int64)).alias("at"),
        pl.col("__reason").alias("reason"),
        "row",
        (pl.col("__missed") if "__missed" in have else pl.lit(0, pl.Int64)).alias("missed"),
        (pl.col("__windows") if "__windows" in have else pl.lit(0, pl.Int64)).alias("windows"),
        pl.lit(raw).alias("raw"),
        (pl.col("rest") if "rest" in have else pl.lit(None, pl.String)).alias("rest"),
        (pl.col(EXTENT) if EXTENT in have else pl.lit(None, pl.String)).alias("extent"),
    )


def as_json(rows: pl.DataFrame, names: Iterable[str]) -> pl.Expr:
    """Columns as a JSON object a row, as Spark's reader takes it: bytes are in base64."""
    binary = pl.element().bin.encode("base64")
    columns = []
    for name in names:
        kind = rows.schema[name]
        if kind == pl.Binary:
            columns.append(pl.col(name).bin.encode("base64"))
        elif kind == pl.List(pl.Binary):
            columns.append(pl.col(name).list.eval(binary))
        else:
            columns.append(pl.col(name))
    return pl.struct(columns).struct.json_encode()


def plain(column: pl.Series) -> pl.Series:
    """A column as the model has its values: times as numbers."""
    inner: Any = column.dtype
    while isinstance(inner, pl.List):
        inner = inner.inner
    return column.to_physical() if inner.is_temporal() else column


def pack(frame: pl.DataFrame) -> bytes:
    """A frame as bytes: Arrow's own format."""
    buffer = io.BytesIO()
    frame.write_ipc(buffer)
    return buffer.getvalue()


def unpack(data: bytes) -> pl.DataFrame:
    return pl.read_ipc(io.BytesIO(data))


def as_batches(records: Iterable[tuple[str, int, bytes]]) -> Iterator[pa.RecordBatch]:
    """Records in the form that goes back to the driver."""
    rows = list(records)
    if rows:
        columns = [pa.array(column, field.type) for column, field in zip(zip(*rows, strict=True), _SCHEMA, strict=True)]
        yield pa.RecordBatch.from_arrays(columns, schema=_SCHEMA)
