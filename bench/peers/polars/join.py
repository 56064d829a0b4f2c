"""Clicks with the impressions of the minute before them, counted by place in windows of ten seconds."""

import polars as pl
from answer import TIME, scan, write

events = scan(kind=pl.String, ad=pl.Int64, place=pl.Int64, at=pl.String).with_columns(at=TIME)
clicked = events.filter(pl.col("kind") == "click").select("ad", "at")
shown = events.filter(pl.col("kind") == "shown").select("ad", "place", seen="at")
age = pl.col("at") - pl.col("seen")
matched = clicked.join(shown, on="ad").filter(age.is_between(pl.duration(seconds=0), pl.duration(minutes=1)))
write(matched.group_by("place", start=pl.col("at").dt.truncate("10s")).agg(n=pl.len()))
