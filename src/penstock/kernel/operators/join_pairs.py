"""Finds the pairs of two tables of rows by key and time. A pair is two row numbers.

Few candidates are joined by key and then filtered by time. Where a key is so frequent that there would be many, time is
cut into cells in which partners must lie, and the left rows are taken in slices with a bounded number of candidates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final, TypeAlias

import numpy as np
import polars as pl

from penstock.kernel.operators.join_side import AT
from penstock.model.join import StreamJoin

Numbers: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]

#: The most candidates that are held at a time.
CANDIDATES: Final = 1 << 21
#: The number of a row.
ROW: Final = "__row"
_CELL, _LEN = "__cell", "__len"


def comparable(rows: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """Rows with their numbers, and with keys that can be joined: a join of sorted floats does not find NaN."""
    columns = []
    for key in keys:
        column = rows[key]
        if column.dtype.is_float():
            bits = pl.Int64 if column.dtype == pl.Float64 else pl.Int32
            column = column.fill_nan(float("nan")).reinterpret(dtype=bits)
        columns.append(column)
    number = pl.int_range(pl.len(), dtype=pl.Int64).alias(ROW)
    return rows.with_columns(*columns, number)


@dataclass(frozen=True)
class PairFinder:
    """Finds pairs of rows with these keys. `candidates` bounds how many are held at a time.

    Rows have keys, `__at` and their number as `__row`.
    """

    join: StreamJoin
    keys: tuple[str, ...]
    candidates: int = CANDIDATES

    def fits(self, left: pl.DataFrame, right: pl.DataFrame) -> bool:
        """Whether all candidates of these rows can be held at a time."""
        few, many = (left, right) if left.height <= right.height else (right, left)
        if not few.height:
            return True
        counts = few.group_by(self.keys).agg(pl.len().cast(pl.Int64).alias(_LEN))
        most = counts[_LEN].max()
        assert isinstance(most, int)
        if most * many.height <= self.candidates:
            return True
        total = many.lazy().select(self.keys).join(counts.lazy(), on=self.keys).select(pl.col(_LEN).sum()).collect()
        return int(total.item() or 0) <= self.candidates

    def slices(self, left: pl.DataFrame, right: pl.DataFrame) -> list[slice]:
        """Slices of the left rows, each with about as many candidates as can be held, or with one row."""
        on = (*self.keys, _CELL)
        counts = self.in_cells(right).group_by(on).agg(pl.len().cast(pl.Int64).alias(_LEN))
        counted = self._spread(left).join(counts, on=on).group_by(ROW).agg(pl.col(_LEN).sum())
        candidates = np.zeros(left.height, np.int64)
        candidates[counted[ROW].to_numpy()] = counted[_LEN].to_numpy()
        number = np.cumsum(candidates) // self.candidates
        cuts = [0, *(np.nonzero(np.diff(number))[0] + 1).tolist(), left.height]
        return [slice(first, end) for first, end in pairwise(cuts)]

    def in_cells(self, right: pl.DataFrame) -> pl.DataFrame:
        """Right rows with the cells of time in which they lie: `pairs` then looks for partners by cell."""
        at, window = pl.col(AT), self.join.window
        cell = at // self._size if window is None else (at - window.offset) // window.size
        return right.with_columns(cell.alias(_CELL))

    def pairs(self, left: pl.DataFrame, right: pl.DataFrame) -> tuple[Numbers, Numbers]:
        """The numbers of the rows of each pair."""
        if not left.height or not right.height:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        on = self.keys
        if _CELL in right.columns:
            left, on = self._spread(left), (*self.keys, _CELL)
        one, other, window = pl.col(AT), pl.col(f"{AT}_right"), self.join.window
        if window is None:
            meet = (other - one).is_between(self.join.earliest, self.join.latest)
        else:
            meet = (one - window.offset) // window.size == (other - window.offset) // window.size
        both = left.join(right, on=on).filter(meet).select(ROW, f"{ROW}_right")
        return both[ROW].to_numpy(), both[f"{ROW}_right"].to_numpy()

    @property
    def _size(self) -> int:
        """The length of a cell, where there are no windows: partners of a row lie in two cells at most."""
        return self.join.latest - self.join.earliest + 1

    def _spread(self, left: pl.DataFrame) -> pl.DataFrame:
        """Left rows with the cells in which partners may lie. A row may have two."""
        at, window = pl.col(AT), self.join.window
        if window is not None:
            return left.with_columns(((at - window.offset) // window.size).alias(_CELL))
        first, last = (at + self.join.earliest) // self._size, (at + self.join.latest) // self._size
        ends = left.filter(first != last).with_columns(last.alias(_CELL))
        return pl.concat([left.with_columns(first.alias(_CELL)), ends])
