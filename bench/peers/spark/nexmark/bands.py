"""Bids, and what is aggregated of them by day: in all and in three bands of prices, in cents.

A stream has no count of distinct values, but it has sets: their sizes are shown.
"""

from nexmark import bids as every
from pyspark.sql import functions as F

bids = every.bids.where("bidder > 0")
BANDS = {"": "true", "_low": "price < 10000", "_middle": "price BETWEEN 10000 AND 999999", "_high": "price >= 1000000"}
DAY = F.window("at", "1 day").alias("day")
START = F.unix_micros("day.start").alias("start")
COUNTS = [F.count(F.when(F.expr(where), 1)).alias(f"bids{band}") for band, where in BANDS.items()]
DISTINCT = [
    F.size(F.collect_set(F.when(F.expr(where), F.col(column)))).alias(f"{column}s{band}")
    for column in ("bidder", "auction")
    for band, where in BANDS.items()
]
COUNTED = ", ".join(f"{what}{band} INTEGER" for what in ("bids", "bidders", "auctions") for band in BANDS)
