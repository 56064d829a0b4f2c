"""Scans of views whose rows are in segments: the same types, values and conditions as scans of tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final, TypeVar

import polars as pl
import pyarrow as pa

from penstock.kernel.columns import END, START
from penstock.kernel.expressions import dtype
from penstock.model.time import BEGINNING, instant
from penstock.model.types import INTEGERS, Schema, decimal_of
from penstock.state.mapping import all_mapped
from penstock.state.read import Expiry, Rows, SegmentTable
from penstock.state.segment import MissingSegment, SegmentError
from penstock.state.selection import Bound, Selection
from penstock.store.base import StoreError
from penstock.store.connection import Connection
from penstock.store.scan_filters import Condition
from penstock.store.segments import segments_of

_Answer = TypeVar("_Answer")
BOUNDS: Final = {"window_start": START, "window_end": END}
#: A reader that misses a file starts again from the newest commit; how often at most.
ATTEMPTS: Final = 5
_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()


def from_newest(read: Callable[[], _Answer], attempts: int = ATTEMPTS) -> _Answer:
    """What a reader gives. If compaction has removed a file of its commit, it reads again, from the newest commit."""
    while True:
        attempts -= 1
        try:
            return read()
        except MissingSegment as error:
            if attempts <= 0:
                raise _unreadable(error) from error
        except SegmentError as error:
            raise _unreadable(error) from error


def _unreadable(error: SegmentError) -> StoreError:
    return StoreError(error.message, detail=error.detail, hint=error.hint)


def open_table(connection: Connection, root: str, name: str, keys: Sequence[str]) -> SegmentTable:
    """A view as the commit has it that the connection sees."""
    sql = "SELECT s.expired, v.closed FROM __sharded s JOIN __views v ON v.name = s.owner WHERE s.owner = ?1"
    (before, closed), *_ = [*connection.rows(sql, [name]).rows(), (BEGINNING, None)]
    expiry = Expiry(before) if closed is None else Expiry(before, closed)
    segments = [one for one in segments_of(connection, name) if one.kind in ("rows", "final")]
    return SegmentTable(all_mapped(root, segments), keys, expiry)


# rows out


def typed_batches(
    table: SegmentTable, schema: pa.Schema, windows: str, selection: Selection
) -> Iterator[pa.RecordBatch]:
    """The selected rows in the types of a schema."""
    for rows in table.rows(selection):
        yield pa.RecordBatch.from_arrays([typed(rows, field, windows) for field in schema], schema=schema)


def typed(rows: Rows, field: pa.Field, windows: str) -> pa.Array:
    """A column in the type of the view."""
    if field.name == "__row" or (field.name in BOUNDS and not windows):
        return pa.nulls(len(rows), field.type)
    column = rows.column(BOUNDS.get(field.name, field.name))
    if column.type == field.type:
        return column
    return column.cast(field.type, safe=not pa.types.is_floating(field.type))


# conditions in


def selection_of(schema: Schema, keys: Sequence[str], windows: str, conditions: Sequence[Condition]) -> Selection:
    """What the conditions of a question say of keys and windows. The question repeats them: some may be left out."""
    wanted: dict[str, pl.Series] = {}
    bounds: list[Bound] = []
    final: bool | None = None
    for condition in conditions:
        name = condition.column
        if name in keys and name not in wanted:
            values = key_values(schema.type_of(name), condition)
            wanted |= {} if values is None else {name: values}
        elif name in BOUNDS and windows:
            bounds += _bounds(condition, windows == "count")
        elif name == "final" and condition.op == "=":
            final = bool(condition.values[0])
    return Selection(wanted, tuple(bounds), final)


def key_values(kind: str, condition: Condition) -> pl.Series | None:
    """The values that a condition allows for a key; None if it says nothing that can be looked up."""
    if condition.op == "is null":
        return pl.Series([None], dtype=dtype(kind))
    if condition.op not in ("=", "in"):
        return None
    try:
        values = [physical(value, kind) for value in condition.values if value is not None]
    except (_Unusable, ArithmeticError):
        return None
    return key_series(kind, values)


def key_series(kind: str, values: Sequence[object]) -> pl.Series | None:
    """Values of a key's type: times in microseconds, dates in days, decimals as Decimal."""
    whole = {"timestamp": pl.Int64, "date": pl.Int32}.get(kind)
    try:
        if whole is not None:
            return pl.Series(list(values), dtype=whole).cast(dtype(kind))
        return pl.Series(list(values), dtype=dtype(kind))
    except (pl.exceptions.PolarsError, TypeError, OverflowError, ValueError):
        return None


class _Unusable(Exception):
    """A value that is not a value of the column."""


def physical(value: Any, kind: str) -> object:
    """A constant of a question as a key has it."""
    if kind in INTEGERS and type(value) is int:
        return value
    if kind == "boolean" and isinstance(value, bool):
        return value
    if (kind == "string" and isinstance(value, str)) or (kind == "binary" and isinstance(value, bytes)):
        return value
    if kind == "timestamp" and isinstance(value, datetime):
        return instant(value)
    if kind == "date" and isinstance(value, date) and not isinstance(value, datetime):
        return value.toordinal() - _EPOCH_DAY
    if kind.startswith("decimal(") and type(value) in (int, Decimal):
        exact = Decimal(value).quantize(Decimal(1).scaleb(-decimal_of(kind)[1]))
        if exact == value:
            return exact
    raise _Unusable


def _bounds(condition: Condition, counted: bool) -> list[Bound]:
    values = [value for value in condition.values if value is not None]
    if not values or condition.op == "is null" or (len(values) > 1 and condition.op != "in"):
        return []
    if counted:
        usable = all(type(value) is int and abs(value) < 1 << 63 for value in values)
        numbers = tuple(values)
    else:
        usable = all(isinstance(value, datetime) for value in values)
        numbers = tuple(instant(value) for value in values) if usable else ()
    return [Bound(BOUNDS[condition.column], condition.op, numbers)] if usable else []
