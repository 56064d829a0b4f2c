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
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, Final, TypeAlias

import polars as pl

from penstock.kernel.expressions import dtype
from penstock.kernel.plan import Plan
from penstock.model.rows import Rows
from penstock.model.time import BEGINNING, END, SECOND, Instant, micros_of, to_datetime
from penstock.model.view import WINDOW_COLUMNS, View
from penstock.model.windows import Counted

Row: TypeAlias = dict[str, Any]

#: What a pane tells besides key, window and values. `pane` is its id, which is the same whenever it is brought again.
PANE_TYPES: Final[dict[str, pl.DataType]] = {
    "kind": pl.String(), "timing": pl.String(), "index": pl.Int64(), "final": pl.Boolean(), "pane": pl.Int64(),
    "commit": pl.Int64(),
}  # fmt: skip
PANE_COLUMNS: Final = tuple(PANE_TYPES)
_DAY: Final = 86_400 * SECOND


class Decoder:
    """Decodes the panes and the table of one view."""

    def __init__(self, view: View) -> None:
        plan = Plan(view)
        self.view = view
        self._keys = plan.key_types
        self._values = plan.values
        self._counted = isinstance(view.windows, Counted)

    def schema(self, mode: str) -> dict[str, pl.DataType]:
        """The columns of rows in a mode, with their types."""
        bound = pl.Int64() if self._counted else pl.Datetime("us", "UTC")
        columns = {**self._keys, **dict.fromkeys(WINDOW_COLUMNS, bound), **self._values}
        return columns | ({"final": pl.Boolean()} if mode == "complete" else PANE_TYPES)

    def panes(self, frame: pl.DataFrame) -> list[Row]:
        """Panes of the outbox."""
        return [
            {
                **self._named(json.loads(pane["key"], parse_float=Decimal), self._keys),
                "window_start": self._bound(pane["start"]),
                "window_end": self._bound(pane["end"]),
                **self._named(json.loads(pane["values"], parse_float=Decimal), self._values),
                "kind": pane["kind"],
                "timing": pane["timing"],
                "index": pane["index"],
                "final": pane["final"],
                "pane": pane["id"],
                "commit": pane["commit"],
            }
            for pane in frame.iter_rows(named=True)
        ]

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

    def _named(self, given: Row, types: dict[str, pl.DataType]) -> Row:
        return {name: decoded(given[name], kind) for name, kind in types.items()}

    def _bound(self, bound: Any) -> datetime | int | None:
        """A window's bound: an element's number, an instant, or none for all time."""
        if bound is None or (not self._counted and bound in (BEGINNING, END)):
            return None
        if self._counted:
            return int(bound)
        return _moment(bound if isinstance(bound, int) else micros_of(bound))


class RowDecoder:
    """Decodes the rows of a flow without state."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._values = {name: dtype(kind) for name, kind in rows.schema}

    def schema(self, mode: str) -> dict[str, pl.DataType]:
        """The columns of rows, with their types."""
        return self._values | {name: PANE_TYPES[name] for name in self._rows.added}

    def panes(self, frame: pl.DataFrame) -> list[Row]:
        """Rows of the outbox."""
        found = []
        for pane in frame.iter_rows(named=True):
            given = json.loads(pane["values"], parse_float=Decimal)
            row = {name: decoded(given[name], kind) for name, kind in self._values.items()}
            found.append({**row, **({"kind": pane["kind"]} if self._rows.signed else {}), "pane": pane["id"]})
        return found


def decoder(definition: View | Rows) -> Decoder | RowDecoder:
    """What decodes the outbox for a sink of this view or flow."""
    return RowDecoder(definition) if isinstance(definition, Rows) else Decoder(definition)


def shaped(panes: pl.DataFrame, mode: str) -> pl.DataFrame:
    """The panes that a mode shows."""
    insert = pl.col("kind") == "insert"
    if mode == "append":
        return panes.filter(insert & pl.col("final"))
    if mode == "upsert":
        return panes.unique(["key", "start", "end"], keep="last", maintain_order=True)
    if mode == "update":
        return panes.filter(insert).unique(["key", "start", "end"], keep="last", maintain_order=True)
    return panes


# One value


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
        return to_datetime(micros).astimezone(UTC)
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
