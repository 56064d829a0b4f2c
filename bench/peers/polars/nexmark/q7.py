"""The highest bids of ten seconds, with ties."""

import polars as pl
from answer import TIME, scan, write

bids = scan(auction=pl.Int64, bidder=pl.Int64, price=pl.Int64, at=pl.String)
bids = bids.filter(pl.col("bidder") > 0).select(
    "price", start=TIME.dt.truncate("10s"), bids=pl.format("{} {}", "auction", "bidder")
)
write(bids.filter(pl.col("price") == pl.col("price").max().over("start")).select("start", "price", "bids"))
