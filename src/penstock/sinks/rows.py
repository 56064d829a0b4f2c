"""Rows as sinks get them: what the outbox and the view's table hold, decoded into Python's values.

Timestamps are aware datetimes, dates dates, decimals `Decimal`, lists lists, structs dictionaries. Where Python's years
end, a timestamp is its microseconds and a date its days since 1970.

>>> import penstock as ps
>>> view = ps.stream("s", schema="k string, d date").group_by("k").agg(last=ps.max("d"))
>>> row = {"k": ["a"], "window_start": None, "window_end": None, "last": "2024-05-01", "final": 0}
>>> Decoder(view).table(pl.DataFrame(row))[0]["last"]
datetime.date(2024, 5, 1)
"""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from functools import cached_property
from typing import Any, Final, TypeAlias, overload

import numpy as np
import polars as pl

from penstock.kernel.expressions import dtype
from penstock.kernel.plan import Plan
from penstock.model.rows import Rows
from penstock.model.time import BEGINNING, END, SECOND, Instant, instant, micros_of, to_datetime
from penstock.model.view import WINDOW_COLUMNS, View
from penstock.model.windows import CountBased
from penstock.store.block import KEY, VALUE

Row: TypeAlias = dict[str, Any]

#: What a pane tells besides key, window and values. `pane` is its id, which is the same whenever it is brought again.
PANE_TYPES: Final[dict[str, pl.DataType]] = {
    "kind": pl.String(), "timing": pl.String(), "index": pl.Int64(), "final": pl.Boolean(), "pane": pl.Int64(),
    "commit": pl.Int64(),
}  # fmt: skip
PANE_COLUMNS: Final = tuple(PANE_TYPES)
#: By column of a sink that of the outbox.
_PANE: Final = {name: "id" if name == "pane" else name for name in PANE_TYPES}
_DAY: Final = 86_400 * SECOND


class PaneRows(Sequence[Row]):
    """Rows that are decoded when they are read one by one. Sinks that write columns take `frame`."""

    def __init__(self, frame: pl.DataFrame) -> None:
        self.frame = frame

    @cached_property
    def _rows(self) -> list[Row]:
        columns = {column.name: values_of(column, column.dtype) for column in self.frame}
        return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]

    def __len__(self) -> int:
        return self.frame.height

    def __iter__(self) -> Iterator[Row]:
        return iter(self._rows)

    @overload
    def __getitem__(self, place: int) -> Row: ...
    @overload
    def __getitem__(self, place: slice) -> list[Row]: ...
    def __getitem__(self, place: int | slice) -> Row | list[Row]:
        return self._rows[place]


class Decoder:
    """Decodes the panes and the table of one view."""

    def __init__(self, view: View) -> None:
        plan = Plan(view)
        self.view = view
        self._keys = plan.key_types
        self._values = plan.values
        self._counted = isinstance(view.windows, CountBased)

    def schema(self, mode: str) -> dict[str, pl.DataType]:
        """The columns of rows in a mode, with their types."""
        bound = pl.Int64() if self._counted else pl.Datetime("us", "UTC")
        columns = {**self._keys, **dict.fromkeys(WINDOW_COLUMNS, bound), **self._values}
        return columns | ({"final": pl.Boolean()} if mode == "complete" else PANE_TYPES)

    def panes(self, frame: pl.DataFrame) -> PaneRows:
        """Panes of the outbox."""
        bounds = zip(WINDOW_COLUMNS, ("start", "end"), strict=True)
        columns = [
            *pane_columns(frame, KEY, self._keys),
            *(_bounds(frame[old].alias(new), self._counted) for new, old in bounds),
            *pane_columns(frame, VALUE, self._values),
            *(frame[old].cast(PANE_TYPES[new]).alias(new) for new, old in _PANE.items()),
        ]
        return PaneRows(pl.DataFrame(columns))

    def table(self, frame: pl.DataFrame) -> list[Row]:
        """Rows of the view's table, as SQL shows them."""
        names, width = self.view.columns, len(self._keys)
        rows = []
        for values in frame.iter_rows():
            row = dict(zip(names, values, strict=True))
            start, end = (self._bound(value) for value in values[width : width + 2])
            keys, results = self._named(row, self._keys), self._named(row, self._values)
            rows.append({**keys, "window_start": start, "window_end": end, **results, "final": bool(row["final"])})
        return rows

    def _named(self, row: Row, types: dict[str, pl.DataType]) -> Row:
        return {name: decoded(row[name], kind) for name, kind in types.items()}

    def _bound(self, bound: Any) -> datetime | int | None:
        return window_bound(bound, self._counted)


class RowDecoder:
    """Decodes the rows of a flow without state."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._values = {name: dtype(kind) for name, kind in rows.schema}

    def schema(self, mode: str) -> dict[str, pl.DataType]:
        """The columns of rows, with their types."""
        return self._values | {name: PANE_TYPES[name] for name in self._rows.added}

    def panes(self, frame: pl.DataFrame) -> PaneRows:
        """Rows of the outbox."""
        added = [frame[_PANE[name]].alias(name) for name in self._rows.added]
        return PaneRows(pl.DataFrame([*pane_columns(frame, VALUE, self._values), *added]))


def decoder(definition: View | Rows) -> Decoder | RowDecoder:
    """What decodes the outbox for a sink of this view or flow."""
    return RowDecoder(definition) if isinstance(definition, Rows) else Decoder(definition)


def shaped(panes: pl.DataFrame, mode: str) -> pl.DataFrame:
    """The panes that a mode shows."""
    insert = pl.col("kind") == "insert"
    if mode == "append":
        return panes.filter(insert & pl.col("final"))
    if mode in ("update", "upsert"):
        keys = [name for name in panes.columns if name.startswith(KEY) or name == "key"]
        shown = panes.filter(insert) if mode == "update" else panes
        return shown.unique([*keys, "start", "end"], keep="last", maintain_order=True)
    return panes


# Values


def window_bound(bound: int | str | None, counted: bool) -> datetime | int | None:
    """A window's bound: an element's number, an instant, or none for all time."""
    if bound is None or (not counted and bound in (BEGINNING, END)):
        return None
    if counted:
        return int(bound)
    return _moment(bound if isinstance(bound, int) else micros_of(bound))


def _bounds(bounds: pl.Series, counted: bool) -> pl.Series:
    """Windows' bounds as `window_bound` has them. In blocks of older stores they may be text."""
    if not bounds.dtype.is_integer():
        kind = pl.Int64() if counted else pl.Datetime("us", "UTC")
        return column_of(bounds.name, kind, [window_bound(bound, counted) for bound in bounds.to_list()])
    if counted:
        return bounds.cast(pl.Int64)
    value = pl.col(bounds.name)
    timed = pl.when(~value.is_in([BEGINNING, END])).then(value).cast(pl.Datetime("us", "UTC"))
    return bounds.to_frame().select(timed.alias(bounds.name)).to_series()


def pane_columns(panes: pl.DataFrame, prefix: str, types: Mapping[str, pl.DataType]) -> list[pl.Series]:
    """The keys or the values of panes, column by column. In blocks of older stores they are JSON."""
    objects = {KEY: "key", VALUE: "values"}[prefix]
    if objects not in panes.columns:
        return [panes[prefix + name].cast(kind).alias(name) for name, kind in types.items()]
    rows = [json.loads(text, parse_float=Decimal) for text in panes[objects]]
    return [column_of(name, kind, [decoded(row[name], kind) for row in rows]) for name, kind in types.items()]


def pane_values(panes: pl.DataFrame, prefix: str, types: Mapping[str, pl.DataType]) -> dict[str, list[Any]]:
    """The keys or the values of panes as Python has them."""
    return {column.name: values_of(column, column.dtype) for column in pane_columns(panes, prefix, types)}


def frame_of(rows: Sequence[Row], schema: Mapping[str, pl.DataType]) -> pl.DataFrame:
    """Rows as columns of these types."""
    if isinstance(rows, PaneRows):
        return rows.frame.select(list(schema))
    return pl.DataFrame([column_of(name, kind, [row[name] for row in rows]) for name, kind in schema.items()])


def column_of(name: str, kind: pl.DataType, values: Sequence[Any]) -> pl.Series:
    """Python's values as a column of a type."""
    return pl.Series(name, [_physical(value) for value in values], dtype=physical(kind)).cast(kind)


def _physical(value: Any) -> Any:
    """Times as numbers: years that Python does not know are numbers already."""
    if isinstance(value, list):
        return [_physical(part) for part in value]
    if isinstance(value, dict):
        return {name: _physical(part) for name, part in value.items()}
    if isinstance(value, datetime):
        return instant(value)
    return value.toordinal() - date(1970, 1, 1).toordinal() if isinstance(value, date) else value


def values_of(series: pl.Series, kind: pl.DataType) -> list[Any]:
    """A column as Python has it.

    >>> values_of(pl.Series([0.1, None], dtype=pl.Float32()), pl.Float32())
    [0.1, None]
    """
    if series.dtype != kind:
        series = series.cast(kind)
    if kind == pl.Float32:
        series = series.cast(pl.String).cast(pl.Float64)  # the digits that it has
    if kind.is_temporal() or kind.is_nested():
        native = _native(kind)
        return [None if value is None else native(value) for value in series.cast(physical(kind)).to_list()]
    return series.to_list()


def physical(kind: pl.DataType) -> pl.DataType:
    """The type with numbers for times: years that Python does not know have no other form."""
    if isinstance(kind, pl.List):
        return pl.List(physical(kind.inner))  # type: ignore[arg-type]
    if isinstance(kind, pl.Struct):
        return pl.Struct({part.name: physical(part.dtype) for part in kind.fields})  # type: ignore[arg-type]
    return pl.Int64() if isinstance(kind, pl.Datetime) else pl.Int32() if kind == pl.Date else kind


def _native(kind: pl.DataType) -> Callable[[Any], Any]:
    """What makes a value of Python from one of the physical type that is not null."""
    if isinstance(kind, pl.List):
        part = _native(kind.inner)  # type: ignore[arg-type]
        return lambda values: [None if value is None else part(value) for value in values]
    if isinstance(kind, pl.Struct):
        parts = {field.name: _native(field.dtype) for field in kind.fields}  # type: ignore[arg-type]
        return lambda values: {name: None if values[name] is None else of(values[name]) for name, of in parts.items()}
    if isinstance(kind, pl.Datetime):
        return _moment
    if kind == pl.Float32:
        return lambda value: float(str(np.float32(value)))
    return _day if kind == pl.Date else lambda value: value


def decoded(value: Any, kind: pl.DataType) -> Any:
    """A value of JSON or of SQL as Python has it.

    >>> decoded("NaN", pl.Float64()), decoded("AAE=", pl.Binary()), decoded([1, None], pl.List(pl.Int64()))
    (nan, b'\\x00\\x01', [1, None])
    """
    if value is None:
        return None
    if isinstance(kind, pl.List):
        parts = json.loads(value, parse_float=Decimal) if isinstance(value, str) else value
        return [decoded(part, kind.inner) for part in parts]  # type: ignore[arg-type]
    if isinstance(kind, pl.Struct):
        parts = json.loads(value, parse_float=Decimal) if isinstance(value, str) else value
        return {part.name: decoded(parts[part.name], part.dtype) for part in kind.fields}  # type: ignore[arg-type]
    if isinstance(kind, pl.Datetime):
        return _moment(micros_of(value))
    if kind == pl.Date:
        return _day(micros_of(value) // _DAY)
    if isinstance(kind, pl.Decimal):
        return _decimal(value, kind.scale)
    if kind.is_float():
        return float(value)
    if kind == pl.Binary:
        return b64decode(value) if isinstance(value, str) else bytes(value)
    if kind == pl.Boolean:
        return bool(value)
    return int(value) if kind.is_integer() else value


def _moment(micros: Instant) -> datetime | int:
    try:
        return to_datetime(micros)
    except OverflowError:
        return micros


def _day(days: int) -> date | int:
    try:
        return date.fromordinal(date(1970, 1, 1).toordinal() + days)
    except (OverflowError, ValueError):
        return days


def _decimal(value: Any, scale: int) -> Decimal:
    """SQL shows decimals of few digits as floats, which hold them up to the zeros at their end."""
    if isinstance(value, float):
        return Decimal(repr(value)).quantize(Decimal(1).scaleb(-scale))
    return Decimal(value)
