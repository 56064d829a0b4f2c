"""The auctions with the most bids of ten seconds, every two seconds, with ties."""

from nexmark.bids import bids
from pyspark.sql import functions as F
from session import run

counts = bids.groupBy(F.window("at", "10 seconds", "2 seconds"), "auction").agg(F.count("*").alias("n"))
every = counts.groupBy("window").agg(F.collect_list(F.struct("n", "auction")).alias("every"), F.max("n").alias("most"))
rows = every.select(
    F.unix_micros("window.start").alias("start"), F.col("most").alias("bids"),
    F.explode(F.expr("transform(filter(every, one -> one.n = most), one -> one.auction)")).alias("auctions"),
)  # fmt: skip
run(rows, "start INTEGER, bids INTEGER, auctions INTEGER", "start, auctions", "append")
