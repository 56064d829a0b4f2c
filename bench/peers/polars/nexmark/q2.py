"""Bids for every 123rd auction."""

import polars as pl
from answer import scan, write

bids = scan(auction=pl.Int64, bidder=pl.Int64, price=pl.Int64).filter(pl.col("bidder") > 0)
write(bids.filter(pl.col("auction") % 123 == 0).select("auction", "price"))
