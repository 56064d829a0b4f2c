"""Columns of Arrow from and to Python's values: times are aware datetimes, in UTC.

>>> values(column([datetime(2024, 5, 1, tzinfo=UTC), None], "timestamp"))
[datetime.datetime(2024, 5, 1, 0, 0, tzinfo=datetime.timezone.utc), None]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.kernel.arrow import arrow_type
from penstock.model.time import instant, to_datetime


def column(values: Sequence[Any], kind: str) -> pa.Array:
    """Python's values as a column of a type of Spark's."""
    wanted = arrow_type(kind)
    turn = _turn(wanted, _physical)
    return pa.array(values if turn is None else [None if value is None else turn(value) for value in values], wanted)


def values(column: pa.ChunkedArray | pa.Array) -> list[Any]:
    """The values of a column. Where Python's years end, a time is its microseconds, and a date its days since 1970."""
    items = column.cast(_plain(column.type)).to_pylist()
    turn = _turn(column.type, _logical)
    return items if turn is None else [None if item is None else turn(item) for item in items]


def _turn(kind: pa.DataType, leaf: Callable[[pa.DataType], Callable[[Any], Any]]) -> Callable[[Any], Any] | None:
    """What turns a value of a type, or none where it stays as it is."""
    if pa.types.is_list(kind):
        inner = _turn(kind.value_type, leaf)
        return None if inner is None else lambda parts: [None if part is None else inner(part) for part in parts]
    if pa.types.is_map(kind):
        turns = [_turn(part, leaf) or (lambda value: value) for part in (kind.key_type, kind.item_type)]
        key_of, item_of = turns
        return lambda parts: [
            (key_of(key), None if item is None else item_of(item))
            for key, item in (parts.items() if isinstance(parts, dict) else parts)
        ]
    if pa.types.is_struct(kind):
        fields = {field.name: _turn(field.type, leaf) for field in kind}
        if not any(fields.values()):
            return None
        return lambda row: {
            name: row[name] if row[name] is None or turn is None else turn(row[name]) for name, turn in fields.items()
        }
    if pa.types.is_float32(kind) and leaf is _logical:
        return lambda value: float(str(np.float32(value)))  # the digits that a float has
    return leaf(kind) if pa.types.is_temporal(kind) else None


def _physical(kind: pa.DataType) -> Callable[[Any], Any]:
    if pa.types.is_timestamp(kind):
        return lambda value: instant(value) if isinstance(value, datetime) else value
    return lambda value: (value - date(1970, 1, 1)).days if isinstance(value, date) else value


def _logical(kind: pa.DataType) -> Callable[[Any], Any]:
    def moment(micros: int) -> Any:
        try:
            return to_datetime(micros).astimezone(UTC)
        except OverflowError:
            return micros

    def day(days: int) -> Any:
        try:
            return date.fromordinal(date(1970, 1, 1).toordinal() + days)
        except (OverflowError, ValueError):
            return days

    return moment if pa.types.is_timestamp(kind) else day


def _plain(kind: pa.DataType) -> pa.DataType:
    """The type with its times as numbers."""
    if pa.types.is_timestamp(kind):
        return pa.int64()
    if pa.types.is_date32(kind):
        return pa.int32()
    if pa.types.is_list(kind):
        return pa.list_(_plain(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, _plain(field.type)) for field in kind])
    return pa.map_(_plain(kind.key_type), _plain(kind.item_type)) if pa.types.is_map(kind) else kind
