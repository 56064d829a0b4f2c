"""The last bid of somebody for an auction on a day; of several in one millisecond the highest."""

from nexmark import bands
from pyspark.sql import functions as F
from session import run

last = F.max_by(F.struct("price", "channel", "url", F.unix_micros("at").alias("at")), F.struct("at", "price"))
rows = bands.bids.groupBy(bands.DAY, "bidder", "auction").agg(last.alias("last"))
run(
    rows.select(bands.START, "bidder", "auction", "last.*"),
    "start INTEGER, bidder INTEGER, auction INTEGER, price INTEGER, channel TEXT, url TEXT, at INTEGER",
    "start, bidder, auction",
)
