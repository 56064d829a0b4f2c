"""Parquet files as columns, inside Spark's tasks: rows need not pass through Java to reach the kernel."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from typing import Any, Final

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from penstock.errors import PenstockError
from penstock.kernel.expressions import dtype
from penstock.model.types import Schema
from penstock.sources.base import MALFORMED, REASON

#: How many rows are handed on at a time, and about how many bytes of them.
_ROWS, _BYTES = 250_000, 64 << 20
#: The bytes of a value in memory, at least. In a file it may have less.
_VALUE: Final = 8
#: The longest text of a row that does not fit which is shown.
_SHOWN: Final = 1000


def read_file(path: str, schema: Schema) -> Iterator[pl.DataFrame]:
    """The columns of the schema, with nulls for those that the file lacks, and rows that do not fit as `MALFORMED`."""
    types = pa.schema([(name, _target(kind)) for name, kind in schema])
    for table in read_tables(path, schema, types):
        frame = pl.from_arrow(table)
        assert isinstance(frame, pl.DataFrame)
        yield frame.with_columns(pl.col(name).cast(dtype(kind)) for name, kind in schema)


def read_tables(path: str, schema: Schema, types: pa.Schema) -> Iterator[pa.Table]:
    """The same as Arrow, with columns of these types."""
    with _opened(path) as file:
        names = file.schema_arrow.names
        there = [name for name in schema.names if name in names]
        for name in there:
            _check(name, file.schema_arrow, schema.type_of(name), types.field(name).type)
        for batch in file.iter_batches(batch_size=_rows_at_a_time(file.metadata), columns=there):
            yield _table(batch, schema, types)


def verify(path: str, schema: Schema) -> None:
    """Reads a file to its end; raises what is wrong with it."""
    with _opened(path) as file:
        there = [name for name in schema.names if name in file.schema_arrow.names]
        for _ in file.iter_batches(batch_size=_rows_at_a_time(file.metadata), columns=there):
            pass


def decoded_size(path: str, columns: Collection[str]) -> int:
    """About how many bytes these columns of a file have in memory. Only the end of the file is read."""
    size = 0
    with _opened(path) as file:
        for number in range(file.metadata.num_row_groups):
            group = file.metadata.row_group(number)
            chunks = [group.column(place) for place in range(group.num_columns)]
            read = [chunk for chunk in chunks if chunk.path_in_schema.partition(".")[0] in columns]
            size += sum(max(chunk.total_uncompressed_size, _VALUE * group.num_rows) for chunk in read)
    return size


def _opened(path: str) -> pq.ParquetFile:
    return pq.ParquetFile(path, coerce_int96_timestamp_unit="us")


def _rows_at_a_time(file: pq.FileMetaData) -> int:
    groups = [file.row_group(number) for number in range(file.num_row_groups)]
    widest = max((group.total_byte_size // max(group.num_rows, 1) for group in groups), default=0)
    return max(1, min(_ROWS, _BYTES // max(widest, 1)))


def _check(name: str, columns: pa.Schema, kind: str, target: pa.DataType) -> None:
    """Refuses a file whose column is of another type. Numbers widen; what would change values is refused."""
    if columns.names.count(name) > 1:
        raise PenstockError(f"it has several columns '{name}'")
    if not _fits(_plain(columns.field(name).type), target):
        raise PenstockError(
            f"its column '{name}' is {columns.field(name).type}, and the stream declares {kind}",
            hint="declare the type that the files have, and cast it in a select",
        )


def _fits(there: pa.DataType, target: pa.DataType) -> bool:
    is_number = pa.types.is_integer(there) or pa.types.is_floating(there) or pa.types.is_decimal(there)
    return (
        pa.types.is_null(there)
        or there == target
        or (pa.types.is_integer(there) and pa.types.is_integer(target))
        or (is_number and pa.types.is_floating(target))
        or (pa.types.is_decimal(there) and pa.types.is_decimal(target))
        or (pa.types.is_timestamp(there) and pa.types.is_timestamp(target))
        or (pa.types.is_date32(there) and pa.types.is_date32(target))
        or (_is_text(there) and _is_text(target))
        or (_is_bytes(there) and _is_bytes(target))
        or (_is_list(there) and _is_list(target) and _fits(_plain(there.value_type), target.value_type))
        or (pa.types.is_struct(there) and pa.types.is_struct(target) and _fields_fit(there, target))
        or (pa.types.is_map(there) and pa.types.is_map(target) and _maps_fit(there, target))
    )


def _fields_fit(there: pa.StructType, target: pa.StructType) -> bool:
    """Fields go by name; those that the file lacks are null."""
    common = [field for field in target if there.get_field_index(field.name) >= 0]
    names = [field.name for field in there]
    return len(names) == len(set(names)) and all(
        _fits(_plain(there.field(field.name).type), field.type) for field in common
    )


def _maps_fit(there: pa.MapType, target: pa.MapType) -> bool:
    return _fits(there.key_type, target.key_type) and _fits(_plain(there.item_type), target.item_type)


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _is_bytes(kind: pa.DataType) -> bool:
    is_one = pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind)
    return bool(is_one) and not pa.types.is_decimal(kind)


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _plain(kind: pa.DataType) -> pa.DataType:
    """What is in a dictionary."""
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _target(kind: str) -> pa.DataType:
    return pl.Series([], dtype=dtype(kind)).to_arrow(compat_level=pl.CompatLevel.oldest()).type


def _table(batch: pa.RecordBatch, schema: Schema, types: pa.Schema) -> pa.Table:
    columns, bad = {}, dict[int, str]()
    for name, kind in schema:
        target = types.field(name).type
        if name in batch.schema.names:
            columns[name] = _column(batch.column(name), name, kind, target, bad)
        else:
            columns[name] = pa.nulls(batch.num_rows, target)
    if bad:
        texts = [_shown(batch, row) if row in bad else None for row in range(batch.num_rows)]
        columns[MALFORMED] = pa.array(texts, pa.string())
        columns[REASON] = pa.array([bad.get(row) for row in range(batch.num_rows)], pa.string())
    return pa.table(columns)


def _column(column: pa.Array, name: str, kind: str, target: pa.DataType, bad: dict[int, str]) -> pa.Array:
    """A column in the type that the stream declares; rows that do not fit are noted, and null."""
    try:
        return _cast(column, target)
    except pa.ArrowException:
        parts = []
        for row in range(len(column)):
            try:
                parts.append(_cast(column.slice(row, 1), target))
            except pa.ArrowException:
                bad.setdefault(row, f"the column '{name}' does not fit {kind}")
                parts.append(pa.nulls(1, target))
        return pa.concat_arrays(parts)


def _cast(column: pa.Array, target: pa.DataType) -> pa.Array:
    column.validate(full=True)  # text may not be UTF-8
    options = pc.CastOptions(target, allow_time_truncate=True, allow_float_truncate=True, allow_invalid_utf8=False)
    return column.cast(options=options)


def _shown(batch: pa.RecordBatch, row: int) -> str:
    """A row as text, as far as it can be shown."""
    return json.dumps({name: _value(batch.column(name), row) for name in batch.schema.names})[:_SHOWN]


def _value(column: pa.Array, row: int) -> Any:
    try:
        value = column[row].as_py()
    except (ValueError, OverflowError, ArithmeticError):  # text that is not UTF-8, a year that Python does not know
        return f"a value of type {column.type} that cannot be shown"
    return value if isinstance(value, int | str | float | bool | None) else str(value)
