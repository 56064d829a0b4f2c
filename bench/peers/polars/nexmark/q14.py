"""Bids in a band of prices, with the part of the day and how many letters c they have."""

import polars as pl
from answer import write
from nexmark.bids import bids

hour = pl.col("at").dt.hour()
part = (
    pl.when(hour.is_between(8, 18)).then(pl.lit("dayTime"))
    .when((hour <= 6) | (hour >= 20)).then(pl.lit("nightTime"))
    .otherwise(pl.lit("otherTime"))
)  # fmt: skip
priced = bids("auction", "bidder", "price", "at", "extra").with_columns(price=pl.col("price").cast(pl.Float64) * 0.908)
chosen = priced.filter((pl.col("price") > 1_000_000) & (pl.col("price") < 50_000_000))
write(chosen.select("auction", "bidder", "price", part.alias("part"), "at", pl.col("extra").str.count_matches("c")))
