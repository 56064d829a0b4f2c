"""The Yahoo benchmark: views, with the campaign of their ad, counted by campaign in windows of ten seconds."""

import polars as pl
from answer import scan, table, write

events = scan(ad_id=pl.String, event_type=pl.String, event_time=pl.String).filter(pl.col("event_type") == "view")
time = pl.from_epoch(pl.col("event_time").cast(pl.Int64), "ms")
views = events.join(table(), left_on="ad_id", right_on="ad")
write(views.group_by("campaign", start=time.dt.truncate("10s")).agg(n=pl.len()))
