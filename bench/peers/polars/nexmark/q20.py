"""Bids with their auction, in category 10."""

import polars as pl
from answer import write
from nexmark.events import events, near

sold = events("auction", "id", "seller", "item", "category").filter(pl.col("category") == 10).rename({"at": "opens"})
pairs = events("bid", "auction", "bidder", "price").join(sold, left_on="auction", right_on="id")
write(pairs.filter(near("at", "opens")).select("auction", "bidder", "price", "at", "seller", "item"))
