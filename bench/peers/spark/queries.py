"""Many queries on one stream: each counts a thousandth of the events in windows of ten seconds."""

import os

from pyspark.sql import functions as F
from session import open_table, read, session, start

spark = session({"spark.scheduler.mode": "FAIR"})
open_table("query INTEGER, start INTEGER, n INTEGER, last TEXT", "query, start")
started = []
for number in range(int(os.environ["PEERS_QUERIES"])):
    events = read(spark, "key string, v bigint, at timestamp").where(F.col("v") == number)
    windows = events.withWatermark("at", "5 seconds").groupBy(F.window("at", "10 seconds").alias("w"))
    counts = windows.agg(F.count("*").alias("n"), F.max("key").alias("last"))
    rows = counts.select(F.lit(number).alias("query"), F.unix_micros("w.start").alias("start"), "n", "last")
    started.append(start(rows, name=f"query{number}"))
for query in started:
    query.awaitTermination()
