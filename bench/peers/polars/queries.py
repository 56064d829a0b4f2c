"""Many queries on one stream: each counts a thousandth of the events in windows of ten seconds."""

import os

import polars as pl
from answer import TIME, scan, write

events = scan(key=pl.String, v=pl.Int64, at=pl.String).filter(pl.col("v") < int(os.environ["PEERS_QUERIES"]))
windows = events.group_by(query="v", start=TIME.dt.truncate("10s"))
write(windows.agg(n=pl.len(), last=pl.max("key")))
