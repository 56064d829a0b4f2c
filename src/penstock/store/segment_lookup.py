"""Pages of views whose rows are in segments: rows by key and window, newest or oldest first, from a place on.

Rows of one window are in the order of their keys' hashes. A place names a row by window, hash and key, so pages stay
right while rows come and go between them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final

import numpy as np
import polars as pl
import pyarrow as pa

from penstock.kernel.arrow import arrow_type
from penstock.kernel.columns import END, START
from penstock.kernel.keys import encoded
from penstock.state.read import PIECE, Place, Rows, SortedPart
from penstock.state.segment import MappedSegment
from penstock.state.selection import Bound, Selection
from penstock.store.base import StoreError
from penstock.store.present import shown
from penstock.store.scan import Scannable, Snapshot
from penstock.store.segment_scan import key_series, typed

#: Places in segments begin with this byte. Those in tables do not: they are the key alone.
MARK: Final = b"S"
_ORDER: Final = ["__e", "__s", "__k"]
_PLACES: Final = {"__e": pl.Int64, "__s": pl.Int64, "__k": pl.Binary, "__position": pl.Int64, "__segment": pl.Int64}


@dataclass(frozen=True)
class SegmentQuestion:
    """A page of rows of a view. With `places`, each row ends with its place: end and start of the window, key.

    Values of keys are those that `segment_scan.key_series` takes, but for decimals, which are text. `bounds` are
    (column, operator, number). `after` is the place of the last row of the page before.
    """

    view: str
    keys: Mapping[str, Sequence[object]] = field(default_factory=dict)
    null: Sequence[str] = ()
    bounds: Sequence[tuple[str, str, int]] = ()
    final: bool | None = None
    newest: bool = True
    after: tuple[int, int, bytes] | None = None
    most: int = 100
    places: bool = True

    def selection(self, view: Scannable) -> Selection:
        """The rows that are asked for, of any page."""
        keys: dict[str, pl.Series] = {}
        for name, values in self.keys.items():
            kind = view.schema.type_of(name)
            series = key_series(kind, [Decimal(str(one)) for one in values] if kind.startswith("decimal(") else values)
            if series is None:
                raise StoreError(f"'{name}' cannot be compared with {list(values)!r}")
            keys[name] = series
        for name in self.null:
            nothing = key_series(view.schema.type_of(name), [None])
            assert nothing is not None
            keys[name] = keys[name].clear() if name in keys else nothing
        bounds = tuple(Bound(column, operator, (number,)) for column, operator, number in self.bounds)
        return Selection(keys, bounds, self.final)


def look_up(snapshot: Snapshot, question: SegmentQuestion, check: Callable[[], None] = lambda: None) -> list[list[Any]]:
    """The rows of a page, as the store shows them. `check` is called periodically, and may end it."""
    view = snapshot.views.get(question.view)
    if view is None or not view.in_segments:
        raise StoreError(f"the view '{question.view}' is not in segments any more", hint="ask again")
    selection = question.selection(view)
    best = _Best(view.keys, question)
    for part in snapshot.segment_table(view).parts():
        best.add(part, selection, check)
    return best.rows(view, question.places)


class _Best:
    """The first rows of a page, of all that were seen."""

    def __init__(self, keys: Sequence[str], question: SegmentQuestion) -> None:
        self._keys, self._question = list(keys), question
        self._segments: list[MappedSegment] = []
        self._first = pl.DataFrame(schema=_PLACES)

    def add(self, part: SortedPart, selection: Selection, check: Callable[[], None]) -> None:
        """Looks at the rows of a part: at all of them, or in their order until there are enough."""
        question, count = self._question, 0
        after = _place(question.after) if question.after is not None and part.by_window else None
        size = min(max(question.most, 1024), PIECE) if part.by_window else PIECE
        for piece in part.pieces(selection, newest=question.newest, after=after, size=size):
            check()
            for rows in piece:
                places = self._places(rows)
                count += places.height
                together = pl.concat([self._first, places])
                self._first = together.sort(_ORDER, descending=question.newest).head(question.most)
            if part.by_window and count >= question.most:
                return

    def _places(self, rows: Rows) -> pl.DataFrame:
        """The places of rows behind the page before. Keys are encoded only for those that may be among the first."""
        hashed = rows.segment.hashes[rows.positions]
        numbers = {"__e": rows.column(END), "__s": rows.column(START), "__h": pa.array(hashed)}
        frame = pl.DataFrame(pl.from_arrow(pa.table(numbers))).with_row_index("__row")
        most, after = self._question.most, self._question.after
        if after is not None:
            place = _place(after)
            near = _behind(["__e", "__s", "__h"], place, frame.schema, self._question.newest, or_there=True)
            frame = frame.filter(near)
            most += frame.filter(pl.col("__h") == pl.lit(place.hash, pl.UInt64)).height
        if frame.height > most:
            by = ["__e", "__s", "__h"]
            frame = frame.sort(by, descending=self._question.newest)
            frame = pl.concat([frame.head(most), _equal(frame.slice(most), by, frame.row(most - 1)[1:])])
        positions = rows.positions[frame["__row"].to_numpy()]
        keys = self._encoded(Rows(rows.segment, positions))
        marked = [MARK + int(number).to_bytes(8, "big") + key for number, key in zip(frame["__h"], keys, strict=True)]
        places = frame.select("__e", "__s", pl.Series("__k", marked, dtype=pl.Binary)).with_columns(
            pl.Series("__position", positions, dtype=pl.Int64),
            pl.lit(self._number(rows.segment), pl.Int64).alias("__segment"),
        )
        if after is not None:
            places = places.filter(_behind(_ORDER, after, places.schema, self._question.newest))
        return places

    def _encoded(self, rows: Rows) -> list[bytes]:
        return encoded(rows.frame(self._keys)).to_list() if self._keys and len(rows) else [b""] * len(rows)

    def _number(self, segment: MappedSegment) -> int:
        if not self._segments or self._segments[-1] is not segment:
            self._segments.append(segment)
        return len(self._segments) - 1

    def rows(self, view: Scannable, places: bool) -> list[list[Any]]:
        """The page."""
        frames = []
        for (segment,), chosen in self._first.with_row_index("__number").group_by("__segment", maintain_order=True):
            own = Rows(self._segments[int(str(segment))], chosen["__position"].to_numpy())
            columns = [shown_column(own, name, view) for name in view.schema.names]
            frames.append(pl.DataFrame([chosen["__number"], *columns, *(chosen[name] for name in _ORDER if places)]))
        if not frames:
            return []
        page = pl.concat(frames).sort("__number").drop("__number")
        return [list(row) for row in page.iter_rows()]


def shown_column(rows: Rows, name: str, view: Scannable) -> pl.Series:
    """A column of rows as the store shows it."""
    column = typed(rows, pa.field(name, arrow_type(view.schema.type_of(name))), view.windows)
    return shown(pl.Series(name, column))


def _equal(frame: pl.DataFrame, by: Sequence[str], values: Sequence[int]) -> pl.DataFrame:
    """The rows that have these values: hashes may be equal by chance."""
    kinds = frame.schema
    return frame.filter(*(pl.col(name) == pl.lit(value, kinds[name]) for name, value in zip(by, values, strict=True)))


def _place(after: tuple[int, int, bytes]) -> Place:
    end, start, key = after
    return Place(end, start, int.from_bytes(key[1:9], "big"))


def _behind(
    by: Sequence[str], place: Sequence[object], kinds: pl.Schema, newest: bool, or_there: bool = False
) -> pl.Expr:
    """Which rows lie behind a place, or at it too."""
    behind = pl.lit(or_there)
    for name, value in reversed(list(zip(by, place, strict=True))):
        own, other = pl.col(name), pl.lit(value, kinds[name])
        further = own < other if newest else own > other
        behind = further | ((own == other) & behind)
    return behind


def is_place(key: bytes) -> bool:
    """Whether a place's key is one of segments."""
    return key[:1] == MARK and len(key) >= 1 + np.dtype(np.uint64).itemsize
