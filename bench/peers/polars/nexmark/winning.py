"""The bids that win auctions, by day: the highest while they are open, of equal ones the earliest."""

import polars as pl
from nexmark.bands import DAY
from nexmark.events import events


def winning():
    expires = pl.col("expires").str.to_datetime("%Y-%m-%dT%H:%M:%S%.6fZ", time_unit="us")
    sold = events("auction", "id", "category", "expires").with_columns(expires).rename({"at": "opens"})
    pairs = events("bid", "auction", "bidder", "price").join(sold, left_on="auction", right_on="id")
    inside = pairs.filter(pl.col("at").is_between("opens", "expires"))
    ranked = inside.sort("price", "at", "bidder", descending=[True, False, False])
    return ranked.group_by("auction", "category", start=DAY).agg(pl.col("price", "bidder", "at").first())
