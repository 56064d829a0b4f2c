"""Counts and sums by key in windows of ten seconds."""

from pyspark.sql import functions as F
from session import read, run, session

spark = session()
events = read(spark, "key string, v bigint, at timestamp").withWatermark("at", "5 seconds")
sums = events.groupBy("key", F.window("at", "10 seconds").alias("w")).agg(
    F.count("*").alias("n"), F.sum("v").alias("total")
)
rows = sums.select("key", F.unix_micros("w.start").alias("start"), "n", "total")
run(rows, "key TEXT, start INTEGER, n INTEGER, total INTEGER", "key, start")
