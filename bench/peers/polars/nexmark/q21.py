"""The number of a bid's channel, from its name or from its address."""

import polars as pl
from answer import write
from nexmark.bids import bids

name = pl.col("channel").str.to_lowercase()
known = name.replace_strict({"apple": "0", "google": "1", "facebook": "2", "baidu": "3"}, default=None)
named = pl.col("url").str.extract("(&|^)channel_id=([^&]*)", 2)
numbered = bids("auction", "bidder", "price", "channel", "url").with_columns(channel_id=known.fill_null(named))
write(numbered.filter(pl.col("channel_id").is_not_null()).drop("url"))
