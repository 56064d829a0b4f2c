"""The rows of a view in segments as a store's tables would have them, for readers that compare with such tables."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import polars as pl

from penstock.kernel.fire import pane_schema
from penstock.kernel.plan import nothing
from penstock.kernel.step import Change
from penstock.state.compact import pieces
from penstock.state.layout import FINAL
from penstock.store.generations import with_panes
from penstock.store.segment_differences import current_rows
from penstock.store.sharded_view import ShardedView


def table_changes(view: ShardedView) -> Iterator[Change]:
    """All rows of a view, piece by piece, as changes that a store loads."""
    none = with_panes(view.plan, nothing(pane_schema(view.plan)))
    for shard in pieces(view.segments):
        rows = current_rows(view, shard)
        yield replace(none, live=rows.filter(~pl.col(FINAL)).drop(FINAL), closed=rows.filter(FINAL).drop(FINAL))
