"""The highest bids of ten seconds, with ties."""

from nexmark.bids import bids
from pyspark.sql import functions as F
from session import run

bid = F.concat_ws(" ", F.col("auction").cast("string"), F.col("bidder").cast("string"))
# Of several highest bids it would show one: bids by price would be a state of nearly all bids.
highest = (
    bids.groupBy(F.window("at", "10 seconds"))
    .agg(F.max("price").alias("price"), F.max_by(bid, "price").alias("bids"))
    .where("price > 0")
)
run(
    highest.select(F.unix_micros("window.start").alias("start"), "price", "bids"),
    "start INTEGER, price INTEGER, bids TEXT",
    "start",
)
