"""Aggregates in all and in three bands of prices, in cents."""

import polars as pl

PRICE = pl.col("price")
BANDS = {"low": PRICE < 10_000, "middle": PRICE.is_between(10_000, 999_999), "high": PRICE >= 1_000_000}
DAY = pl.col("at").dt.truncate("1d")
bids = {"bids": pl.len(), **{f"bids_{band}": where.sum() for band, where in BANDS.items()}}
distinct = {
    name: value
    for column in ("bidder", "auction")
    for name, value in {
        f"{column}s": pl.col(column).n_unique(),
        **{f"{column}s_{band}": pl.col(column).filter(where).n_unique() for band, where in BANDS.items()},
    }.items()
}
