"""The bids for an auction on a day."""

import polars as pl
from answer import write
from nexmark import bands
from nexmark.bids import bids

price = pl.col("price")
prices = {"lowest": price.min(), "highest": price.max(), "mean": price.mean(), "total": price.sum()}
write(bids("auction", "price", "at").group_by("auction", start=bands.DAY).agg(**bands.bids, **prices))
