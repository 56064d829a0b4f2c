"""Bids and distinct bidders and auctions of a channel and day, and the last minute in which it was seen."""

from nexmark import bands
from pyspark.sql import functions as F
from session import run

minute = F.max(F.date_format("at", "HH:mm")).alias("minute")
counts = bands.bids.groupBy("channel", bands.DAY).agg(minute, *bands.COUNTS, *bands.DISTINCT)
run(
    counts.select("channel", bands.START, *counts.columns[2:]),
    f"channel TEXT, start INTEGER, minute TEXT, {bands.COUNTED}",
    "channel, start",
)
