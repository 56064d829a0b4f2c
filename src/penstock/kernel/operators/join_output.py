"""What a join of streams gives, as rows: the columns of both sides, sorted by the places of the rows on both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import polars as pl

from penstock.kernel.expressions import dtype
from penstock.kernel.operators.base import SIGN, column_name
from penstock.kernel.operators.join_pairs import Numbers
from penstock.kernel.operators.join_side import PLACE
from penstock.model.join import StreamJoin

Signs: TypeAlias = np.ndarray[Any, np.dtype[np.int8]]

#: The columns with the places of both rows.
PLACES: Final = tuple(tuple(f"{letter}{name}" for name in PLACE) for letter in ("l", "r"))
_ROOM: Final = 62  # bits


@dataclass(frozen=True)
class JoinedRows:
    """Rows of both sides that come out together, by their numbers. The number of rows of a side stands for none."""

    left: Numbers
    right: Numbers
    signs: Signs

    @property
    def sides(self) -> tuple[Numbers, Numbers]:
        return self.left, self.right

    def chosen(self, which: np.ndarray[Any, Any]) -> JoinedRows:
        """Some of them: by their numbers, or by a mask."""
        return JoinedRows(self.left[which], self.right[which], self.signs[which])

    @classmethod
    def together(cls, parts: Sequence[JoinedRows]) -> JoinedRows:
        """Several as one."""
        left, right = (np.concatenate([part.sides[side] for part in parts]) for side in (0, 1))
        return cls(left, right, np.concatenate([part.signs for part in parts]))


def output(join: StreamJoin, tables: tuple[pl.DataFrame, pl.DataFrame], joined: JoinedRows) -> pl.DataFrame:
    """The rows that come out, with their places and signs."""
    joined = _in_order(tables, joined)
    columns: list[pl.Series] = []
    values: list[dict[str, pl.Series]] = []
    for side, (table, numbers) in enumerate(zip(tables, joined.sides, strict=True)):
        names = [column_name(own) for _, of, own in join.gives if of in (side, 2)]
        side_rows = _gathered(table.select(*PLACE, *dict.fromkeys(names)), numbers)
        columns += [side_rows[name].alias(to) for name, to in zip(PLACE, PLACES[side], strict=True)]
        values.append({name: side_rows[name] for name in names})
    for name, side, own in join.gives:
        column = values[side % 2][column_name(own)]
        if side == 2 and join.gives_alone(1):
            column = column.zip_with(column.is_not_null(), values[1][column_name(own)].cast(column.dtype))
        columns.append(column.cast(dtype(join.schema.type_of(name))).alias(name))
    return pl.DataFrame([*columns, pl.Series(SIGN, joined.signs, dtype=pl.Int8)])


def _gathered(table: pl.DataFrame, numbers: Numbers) -> pl.DataFrame:
    """The rows of these numbers; nulls where there is none."""
    if len(numbers) and numbers.max() == table.height:
        table = pl.concat([table, table.clear(1)], rechunk=True)
    return table.select(pl.all().gather(pl.Series(numbers, dtype=pl.UInt32)))


def _in_order(tables: tuple[pl.DataFrame, pl.DataFrame], joined: JoinedRows) -> JoinedRows:
    """The same, sorted by the place of the left row and then of the right one; where there is none stands last.

    Ranks and sign are packed into one number: sorting numbers is several times faster than finding their order.
    """
    if len(joined.signs) < 2:
        return joined
    orders = [np.append(_order(table), table.height) for table in tables]
    left, right = (_ranks(order)[numbers] for order, numbers in zip(orders, joined.sides, strict=True))
    bits = int(tables[1].height).bit_length()
    packed = _sorted((left << (bits + 1)) | (right << 1) | (joined.signs > 0))
    signs = (packed & 1).astype(np.int8) * 2 - 1
    packed = packed >> 1
    return JoinedRows(orders[0][packed >> bits], orders[1][packed & ((1 << bits) - 1)], signs)


def _sorted(numbers: Numbers) -> Numbers:
    return pl.Series(numbers).sort().to_numpy()


def _ranks(order: Numbers) -> Numbers:
    """Where each number stands in an order."""
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.arange(len(order))
    return ranks


def _order(table: pl.DataFrame) -> Numbers:
    """The numbers of the rows in the order of their places. These are packed into one number, if they fit."""
    numbers = np.arange(table.height)
    if table.height < 2:
        return numbers
    columns = [table[name].to_numpy() for name in PLACE]
    packed, room = np.zeros(table.height, np.int64), _ROOM
    for column in (*columns, numbers):
        least = int(column.min())
        bits = (int(column.max()) - least).bit_length()
        if bits > room:
            return np.lexsort(columns[::-1])
        if bits:
            packed, room = (packed << bits) | (column.astype(np.int64) - least), room - bits
    if (packed[1:] > packed[:-1]).all():
        return numbers
    return _sorted(packed) & ((1 << (table.height - 1).bit_length()) - 1)
