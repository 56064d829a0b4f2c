"""How many bids somebody makes without a pause of ten seconds."""

from nexmark.bids import bids
from pyspark.sql import functions as F
from session import run

counts = bids.groupBy(F.session_window("at", "10 seconds").alias("w"), "bidder").agg(F.count("*").alias("bids"))
rows = counts.select("bidder", F.unix_micros("w.start").alias("start"), "bids")
run(rows, "bidder INTEGER, start INTEGER, bids INTEGER", "bidder, start", "append")
