"""Ids: which rows of an epoch do not count, because their id was accepted before or is too old to tell."""

from __future__ import annotations

import polars as pl

from penstock.engine.task import PLACE
from penstock.model.commits import DUPLICATE, TOO_OLD
from penstock.model.stream import Stream
from penstock.model.time import BEGINNING
from penstock.model.watermarks import Tracker
from penstock.store import Store


def left_out(
    stream: Stream, tracker: Tracker | None, store: Store, found: pl.DataFrame, new_ids: dict[str, pl.DataFrame]
) -> pl.DataFrame:
    """The places of rows that do not count, with kind and reason, of all ids of an epoch; the new ones are noted."""
    watermark = BEGINNING if tracker is None else tracker.watermark
    known = store.ids(stream.name, found.select("__id").unique())
    oldest = watermark - stream.id_horizon if watermark > BEGINNING else BEGINNING
    old = found.filter(pl.col("__at") < oldest)
    told = found.filter(pl.col("__at") >= oldest).sort(PLACE)
    first = told.join(known, on="__id", how="anti", maintain_order="left")
    first = first.filter(pl.col("__id").is_first_distinct())
    again = told.join(first, on=list(PLACE), how="anti")
    new_ids[stream.name] = first.select("__id", "__at")
    reasons = {"duplicate": (again, DUPLICATE), "late": (old, TOO_OLD)}
    return pl.concat(
        frame.select(*PLACE, pl.lit(kind).alias("__kind"), pl.lit(reason).alias("__reason"))
        for kind, (frame, reason) in reasons.items()
    )
