"""Bids and distinct bidders and auctions of a channel and day, and the last minute in which it was seen."""

import polars as pl
from answer import write
from nexmark import bands
from nexmark.bids import bids

minute = pl.col("at").dt.strftime("%H:%M").max()
days = bids("auction", "bidder", "price", "channel", "at").group_by("channel", start=bands.DAY)
write(days.agg(minute=minute, **bands.bids, **bands.distinct))
