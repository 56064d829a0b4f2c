"""Counts and sums by key in windows of ten seconds."""

import polars as pl
from answer import TIME, scan, write

events = scan(key=pl.String, v=pl.Int64, at=pl.String)
windows = events.group_by("key", start=TIME.dt.truncate("10s"))
write(windows.agg(n=pl.len(), total=pl.sum("v")))
