"""How many bids somebody makes without a pause of ten seconds."""

import polars as pl
from answer import TIME, scan, write

bids = scan(bidder=pl.Int64, at=pl.String).filter(pl.col("bidder") > 0).select("bidder", at=TIME).sort("at")
pause = pl.col("at").diff() >= pl.duration(seconds=10)
sessions = bids.with_columns(session=pause.fill_null(False).cum_sum().over("bidder"))
counts = sessions.group_by("bidder", "session").agg(start=pl.col("at").min(), bids=pl.len())
write(counts.select("bidder", "start", "bids"))
