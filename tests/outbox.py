"""The outbox as one table: what tests compare."""

from __future__ import annotations

from typing import Any

import polars as pl

from penstock.store.block import json_panes

#: Key and values are JSON objects.
PANES = {
    "id": pl.Int64(), "commit": pl.Int64(), "view": pl.String(), "key": pl.String(), "start": pl.Int64(),
    "end": pl.Int64(), "values": pl.String(), "kind": pl.String(), "timing": pl.String(), "index": pl.Int64(),
    "final": pl.Boolean(),
}  # fmt: skip


def panes(store: Any) -> pl.DataFrame:
    """All panes that the outbox of a store has, of all views, by id."""
    frames = [
        json_panes(block.panes).with_columns(pl.lit(view).alias("view")).select(*PANES)
        for view in store.newest_blocks(0)
        for block in store.blocks(view, 0, 1 << 30)
    ]
    return pl.concat(frames).sort("id") if frames else pl.DataFrame(schema=PANES)
