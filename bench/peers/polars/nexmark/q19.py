"""The ten highest bids for an auction on a day; of equal ones those of the later bidders."""

import polars as pl
from answer import write
from nexmark import bands
from nexmark.bids import bids

sorted_ = bids("auction", "price", "bidder", "at").sort("price", "bidder", descending=True)
highest = sorted_.group_by("auction", start=bands.DAY).agg(pl.col("price", "bidder").head(10))
write(highest.select("start", "auction", "price", "bidder").explode("price", "bidder"))
