"""The auctions with the most bids of ten seconds, every two seconds, with ties."""

import polars as pl
from answer import TIME, scan, write

bids = scan(auction=pl.Int64, bidder=pl.Int64, at=pl.String).filter(pl.col("bidder") > 0).select("auction", at=TIME)
slides = bids.with_columns(slide=pl.lit(list(range(0, 10, 2)))).explode("slide")
start = pl.col("at").dt.truncate("2s") - pl.duration(seconds="slide")
counts = slides.group_by("auction", start=start).agg(bids=pl.len())
write(counts.filter(pl.col("bids") == pl.col("bids").max().over("start")).select("start", "bids", "auction"))
