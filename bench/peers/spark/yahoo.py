"""The Yahoo benchmark: views, with the campaign of their ad, counted by campaign in windows of ten seconds."""

import os

from pyspark.sql import functions as F
from session import read, run, session

spark = session()
names = ("user_id", "page_id", "ad_id", "ad_type", "event_type", "event_time", "ip_address")
events = read(spark, ", ".join(f"{name} string" for name in names))
ads = F.broadcast(spark.read.schema("ad string, campaign string").csv(os.environ["PEERS_TABLE"]))
views = events.where("event_type = 'view'").select(
    "ad_id", F.expr("timestamp_millis(CAST(event_time AS bigint))").alias("at")
)
views = views.withWatermark("at", "5 seconds").join(ads, F.col("ad_id") == F.col("ad"))
counts = views.groupBy("campaign", F.window("at", "10 seconds").alias("w")).agg(F.count("*").alias("n"))
run(
    counts.select("campaign", F.unix_micros("w.start").alias("start"), "n"),
    "campaign TEXT, start INTEGER, n INTEGER",
    "campaign, start",
)
