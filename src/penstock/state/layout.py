"""How the rows of one kind of state lie in segments: their columns, what identifies a row, and their order.

Rows are sorted by the hash of their key. Where windows end and do not merge, the rows of a window lie together:
they are sorted by end, start and hash.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import polars as pl

from penstock.kernel.columns import END, START
from penstock.model.windows import CountBased

if TYPE_CHECKING:
    from penstock.kernel.plan import Plan

#: The columns that segments have besides those of the state: hash of the key, deleted or not, what readers may see,
#: the processing time from which a row is worth a look.
HASH, GONE, VISIBLE, DUE = "__hash", "__gone", "__visible", "__due"
FINAL: Final = "final"
#: The column of the state with the newest event time of a key, in views that forget keys.
TOUCHED: Final = "__touched"
#: Prefix of the columns that readers see, where the state has no such column.
PRESENTED: Final = "="

#: `rows` are a view's windows, `final` those that are closed where windows merge or count; `ghosts` and `seen` are the
#: kernel's; `ids` are the known ids of a stream; `left` and `right` are the rows of a join, `versions` those of a table
#: that it reads; `cells` are the state of a processor's keys.
Kind: TypeAlias = Literal["rows", "final", "ghosts", "seen", "ids", "left", "right", "versions", "cells"]


@dataclass(frozen=True)
class Layout:
    """Columns of one kind of state. `keys` and `place` identify a row."""

    kind: Kind
    keys: tuple[str, ...]
    place: tuple[str, ...]
    schema: Mapping[str, pl.DataType]
    by_window: bool = False

    @property
    def identity(self) -> list[str]:
        """The columns that identify a row."""
        return [*self.keys, *self.place]


def in_place(plan: Plan) -> bool:
    """Whether windows close by the watermark alone, and stay what and where they are."""
    return not plan.merging and not isinstance(plan.view.windows, CountBased)


def layouts(plan: Plan) -> dict[Kind, Layout]:
    """The kinds of state that a view has."""
    keys, window = tuple(plan.keys), (START, END)
    flags = {FINAL: pl.Boolean(), DUE: pl.Int64()}
    stays = in_place(plan)
    kinds = [Layout("rows", keys, window, {**plan.state_schema, **flags}, by_window=stays)]
    if not stays:
        kinds.append(Layout("final", keys, window, {**plan.state_schema, **flags}, by_window=True))
    if plan.merging:
        kinds.append(Layout("ghosts", keys, (START, END, "__shown"), plan.ghost_schema))
    if isinstance(plan.view.windows, CountBased):
        kinds.append(Layout("seen", keys, (), {**plan.key_types, "__seen": pl.Int64()}))
    return {layout.kind: layout for layout in kinds}


def ids_layout(kind: pl.DataType) -> Layout:
    """The known ids of a stream, with the event time of the row that brought each."""
    return Layout("ids", ("__id",), (), {"__id": kind, "__at": pl.Int64()})
