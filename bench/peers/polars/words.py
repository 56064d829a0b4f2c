"""Words of lines, counted by hour."""

import polars as pl
from answer import TIME, scan, write

lines = scan(line=pl.String, at=pl.String).select(word=pl.col("line").str.split(" "), start=TIME.dt.truncate("1h"))
write(lines.explode("word").group_by("word", "start").agg(n=pl.len()))
