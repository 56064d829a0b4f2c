"""Finds the pairs of two tables of rows by key and time. A pair is two row numbers.

Few candidates are joined by key and then filtered by time. Where a key is so frequent that there would be many, time is
cut into cells in which partners must lie, and rows are taken in chunks, so that memory follows the pairs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import polars as pl

from penstock.kernel.operators.join_side import AT
from penstock.model.join import StreamJoin

Numbers: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]

#: So many candidates are held at a time.
CANDIDATES: Final = 1 << 22
_CELL, _ROW = "__cell", "__row"


def comparable(rows: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """Rows with their numbers, and with keys that can be joined: a join of sorted floats does not find NaN."""
    columns = []
    for key in keys:
        column = rows[key]
        if column.dtype.is_float():
            bits = pl.Int64 if column.dtype == pl.Float64 else pl.Int32
            column = column.fill_nan(float("nan")).reinterpret(dtype=bits)
        columns.append(column)
    number = pl.int_range(pl.len(), dtype=pl.Int64).alias(_ROW)
    return rows.with_columns(*columns, number)


@dataclass(frozen=True)
class PairFinder:
    """Finds pairs of rows with these keys. `candidates` bounds how many are held at a time."""

    join: StreamJoin
    keys: tuple[str, ...]
    candidates: int = CANDIDATES

    def pairs(self, left: pl.DataFrame, right: pl.DataFrame) -> tuple[Numbers, Numbers]:
        """The numbers of the rows of each pair. Rows have keys, `__at` and their number as `__row`."""
        none = np.zeros(0, np.int64)
        if not left.height or not right.height:
            return none, none
        few, many = (left, right) if left.height <= right.height else (right, left)
        most = few.group_by(self.keys).len()["len"].max()
        assert isinstance(most, int)
        if most * many.height <= self.candidates:
            parts = [self._joined(left, right, self.keys)]
        else:
            parts = list(self._in_chunks(left, right))
        one, other = ([none, *(part[name].to_numpy() for part in parts)] for name in (_ROW, f"{_ROW}_right"))
        return np.concatenate(one), np.concatenate(other)

    def _joined(self, left: pl.DataFrame, right: pl.DataFrame, on: Sequence[str]) -> pl.DataFrame:
        one, other, window = pl.col(AT), pl.col(f"{AT}_right"), self.join.window
        if window is None:
            meet = (other - one).is_between(self.join.earliest, self.join.latest)
        else:
            meet = (one - window.offset) // window.size == (other - window.offset) // window.size
        return left.join(right, on=on).filter(meet).select(_ROW, f"{_ROW}_right")

    def _in_chunks(self, left: pl.DataFrame, right: pl.DataFrame) -> Iterator[pl.DataFrame]:
        left, right = self._in_cells(left, right)
        on = (*self.keys, _CELL)
        counts = right.group_by(on).agg(pl.len().cast(pl.Int64).alias("__candidates"))
        counted = left.join(counts, on=on, maintain_order="left")
        chunk = (pl.col("__candidates").cum_sum() // self.candidates).alias("__chunk")
        for rows in counted.with_columns(chunk).partition_by("__chunk", maintain_order=True, include_key=False):
            yield self._joined(rows.drop("__candidates"), right, on)

    def _in_cells(self, left: pl.DataFrame, right: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
        """The rows with cells of time: partners share one. A row of the left may lie in two cells."""
        at, window = pl.col(AT), self.join.window
        if window is not None:
            cell = ((at - window.offset) // window.size).alias(_CELL)
            return left.with_columns(cell), right.with_columns(cell)
        size = self.join.latest - self.join.earliest + 1
        first, last = (at + self.join.earliest) // size, (at + self.join.latest) // size
        spread = [left.with_columns(first.alias(_CELL)), left.filter(first != last).with_columns(last.alias(_CELL))]
        return pl.concat(spread), right.with_columns((at // size).alias(_CELL))
