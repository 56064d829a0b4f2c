"""The three directories of a bid's address."""

import polars as pl
from answer import write
from nexmark.bids import bids

parts = {f"dir{place}": pl.col("url").str.split("/").list.get(place + 2) for place in (1, 2, 3)}
write(bids("auction", "bidder", "price", "channel", "url").with_columns(**parts).drop("url"))
