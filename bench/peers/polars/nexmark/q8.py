"""Who is new and sells in the same ten seconds."""

import polars as pl
from answer import write
from nexmark.events import events

START = pl.col("at").dt.truncate("10s").alias("start")
opened = events("auction", "seller").select(START, person="seller")
born = events("person", "id", "name").select(START, "name", person="id")
write(born.join(opened, on=["start", "person"], how="semi").select("start", "person", "name"))
