"""Clicks with the impressions of the minute before them, counted by place in windows of ten seconds."""

from pyspark.sql import functions as F
from session import add, read, run, session

SCHEMA = "kind string, ad bigint, place int, at timestamp"
spark = session()
clicked = read(spark, SCHEMA).where("kind = 'click'").select("ad", "at").withWatermark("at", "5 seconds")
shown = (
    read(spark, SCHEMA).where("kind = 'shown'").select(F.col("ad").alias("shown"), "place", F.col("at").alias("seen"))
)
within = F.expr("ad = shown AND seen >= at - INTERVAL 1 MINUTE AND seen <= at")
pairs = clicked.join(shown.withWatermark("seen", "5 seconds"), within)
# An aggregation behind a join gives out windows only when they are closed, so the sink adds the counts up.
run(
    pairs, "place INTEGER, start INTEGER, n INTEGER", "place, start", "append",
    prepare=lambda batch: batch.groupBy("place", F.window("at", "10 seconds").alias("w"))
    .count().select("place", F.unix_micros("w.start").alias("start"), "count"),
    statement=add("place, start", "n"),
)  # fmt: skip
