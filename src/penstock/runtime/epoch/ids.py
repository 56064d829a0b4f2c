"""Ids: which rows of an epoch do not count, because their id was accepted before or is too old to judge."""

from __future__ import annotations

import polars as pl

from penstock.kernel.deduplicate import deduplicate
from penstock.model.stream import Stream
from penstock.model.time import BEGINNING
from penstock.model.watermarks import Tracker
from penstock.store import Store


def left_out(
    stream: Stream, tracker: Tracker | None, store: Store, ids: pl.DataFrame, new_ids: dict[str, pl.DataFrame]
) -> pl.DataFrame:
    """The places of rows that do not count, with kind and reason, of all ids of an epoch; notes the new ids."""
    watermark = BEGINNING if tracker is None else tracker.watermark
    known = store.ids(stream.name, ids.select("__id").unique())
    verdict = deduplicate(ids, known, watermark, stream.id_horizon)
    new_ids[stream.name] = verdict.new_ids
    return verdict.rejected
