"""What auctions fetch on average, by category and day."""

import polars as pl
from answer import write
from nexmark.winning import winning

means = winning().group_by("start", "category").agg(auctions=pl.len(), mean=pl.col("price").mean())
write(means.select("start", "category", "auctions", "mean"))
