"""Lookups by the whole key in views whose rows are in segments.

What depends on the commit alone is read once and kept until the store changes: columns of the view, list of segments,
mapped files. So a lookup is some binary searches and the values of a few rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import polars as pl
import pyarrow as pa

from penstock.kernel.one_key import PlainKey, plain_key
from penstock.model.types import INTEGERS
from penstock.state.key_rows import KeyRow, KeyRows, SegmentCells, TooManyRows
from penstock.state.read import Rows
from penstock.state.selection import Bound
from penstock.store.present import shown, stored_date, stored_time
from penstock.store.reader import Reader
from penstock.store.scan import Scannable, Snapshot, scanning
from penstock.store.segment_lookup import MARK, SegmentQuestion, shown_column
from penstock.store.segment_scan import BOUNDS
from penstock.store.version_probe import VersionProbe

#: Seconds without a question after which the cache should be dropped.
UNUSED: Final = 60.0


@dataclass(frozen=True)
class KeyAnswer:
    """The rows of a key as the store shows them, and the commit that has them."""

    columns: Sequence[str]
    rows: list[list[Any]]
    commit: int


class KeyLookups:
    """Answers lookups by whole key from one store. For one thread at a time."""

    def __init__(self, reader: Reader) -> None:
        self._reader, self._probe = reader, VersionProbe(reader)
        self._version: object = None
        self._tables: dict[str, KeyTable | None] = {}

    def answer(self, question: SegmentQuestion) -> KeyAnswer | None:
        """The rows of a page; None if the question is not one for a whole key, or if its key has many rows."""
        table = self._table(question.view)
        return None if table is None else table.answer(question)

    def _table(self, name: str) -> KeyTable | None:
        # A table is read after the version: it may be newer than that, never older.
        version = self._probe.version()
        if version != self._version:
            self._version, self._tables = version, {}
        if name not in self._tables:
            with scanning(self._reader) as snapshot:
                view = snapshot.views.get(name)
                self._tables[name] = KeyTable(snapshot, view) if view is not None and view.in_segments else None
        return self._tables[name]

    def forget(self) -> None:
        """Lets go of the files that are mapped: they keep their space on the disk after they were removed."""
        self._version, self._tables = None, {}

    def close(self) -> None:
        self.forget()
        self._probe.close()


class KeyTable:
    """A view at one commit."""

    def __init__(self, snapshot: Snapshot, view: Scannable) -> None:
        self._view, self._commit = view, snapshot.commit
        self._rows = KeyRows(snapshot.segment_table(view))
        self._names = list(view.schema.names)
        self._kinds = [view.schema.type_of(name) for name in view.keys]
        self._shown = [_column(view, name) for name in self._names]

    def answer(self, question: SegmentQuestion) -> KeyAnswer | None:
        """The rows of a page."""
        key = self._key(question)
        if key is None:
            return None
        bounds = [Bound(column, operator, (number,)) for column, operator, number in question.bounds]
        try:
            rows = self._rows.find(key, bounds, question.final)
        except TooManyRows:
            return None
        rows.sort(key=_window, reverse=question.newest)
        place = MARK + key.hash.to_bytes(8, "big") + key.encoded
        if question.after is not None:
            end, start, after = question.after
            last = (end, start, after)
            here = [(row, (row.end, row.start, place)) for row in rows]
            rows = [row for row, at in here if (at < last if question.newest else at > last)]
        page = [self._row(row) for row in rows[: question.most]]
        if question.places:
            for values, row in zip(page, rows, strict=False):
                values += [row.end, row.start, place]
        return KeyAnswer(self._names, page, self._commit)

    def _key(self, question: SegmentQuestion) -> PlainKey | None:
        """The one key that is asked for."""
        values: list[object] = []
        for name in self._view.keys:
            values_of_key = question.keys.get(name)
            if values_of_key is None and name in question.null:
                values.append(None)
            elif (
                values_of_key is not None
                and len(values_of_key) == 1
                and values_of_key[0] is not None
                and name not in question.null
            ):
                values.append(values_of_key[0])
            else:
                return None
        if not values or len(question.keys) + len(question.null) != len(values):
            return None
        return plain_key(self._kinds, values)

    def _row(self, row: KeyRow) -> list[Any]:
        return [show(row.cells, row.position) for show in self._shown]


def _window(row: KeyRow) -> tuple[int, int]:
    return row.end, row.start


# values as the store shows them

_WHOLE: Final = frozenset({pa.int8(), pa.int16(), pa.int32(), pa.int64()})
#: As what columns of a type may be kept so that a value is shown as it is, or as a time.
_PLAIN: Final[Mapping[str, frozenset[pa.DataType]]] = {
    **dict.fromkeys(INTEGERS, _WHOLE),
    "boolean": frozenset({pa.bool_()}),
    "float": frozenset({pa.float32()}),
    "double": frozenset({pa.float64()}),
    "string": frozenset({pa.string(), pa.large_string()}),
    "binary": frozenset({pa.binary(), pa.large_binary()}),
    "date": frozenset({pa.date32()}),
    "timestamp": frozenset({pa.int64(), pa.timestamp("us"), pa.timestamp("us", "UTC")}),
}


def _column(view: Scannable, name: str) -> Callable[[SegmentCells, int], Any]:
    """What shows a value of a column. Types that need more than that are shown as columns of one row."""
    kind, stored_name = view.schema.type_of(name), BOUNDS.get(name, name)
    if name in BOUNDS and not view.windows:
        return _nothing
    plain, show = _PLAIN.get(kind, frozenset()), _SHOW.get(kind, _itself)

    def value(cells: SegmentCells, position: int) -> Any:
        if cells.columns[stored_name].type in plain:
            return show(cells.value(stored_name, position))
        return shown_column(Rows(cells.segment, np.array([position])), name, view)[0]

    return value


def _nothing(cells: SegmentCells, position: int) -> None:
    return None


def _itself(value: Any) -> Any:
    return value


def _time(micros: int | None) -> str | None:
    try:
        return None if micros is None else stored_time(micros)
    except (OverflowError, ValueError):  # Python knows the years 1 to 9999
        return str(shown(pl.Series([micros], dtype=pl.Int64).cast(pl.Datetime("us")))[0])


def _date(days: int | None) -> str | None:
    try:
        return None if days is None else stored_date(days)
    except (OverflowError, ValueError):
        return str(shown(pl.Series([days], dtype=pl.Int32).cast(pl.Date))[0])


_SHOW: Final[Mapping[str, Callable[[Any], Any]]] = {"timestamp": _time, "date": _date}
