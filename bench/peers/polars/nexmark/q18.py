"""The last bid of somebody for an auction on a day; of several in one millisecond the highest."""

import polars as pl
from answer import write
from nexmark import bands
from nexmark.bids import bids

days = bids("bidder", "auction", "price", "channel", "url", "at").sort("at", "price")
last = days.group_by("bidder", "auction", start=bands.DAY).agg(pl.col("price", "channel", "url", "at").last())
write(last.select("start", "bidder", "auction", "price", "channel", "url", "at"))
