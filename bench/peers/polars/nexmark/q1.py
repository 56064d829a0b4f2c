"""Bids with their price in another currency."""

import polars as pl
from answer import write
from nexmark.bids import bids

write(bids("auction", "bidder", "price", "at").with_columns(price=pl.col("price").cast(pl.Float64) * 0.908))
