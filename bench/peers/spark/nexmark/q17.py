"""The bids for an auction on a day."""

from nexmark import bands
from pyspark.sql import functions as F
from session import run

prices = {"lowest": F.min, "highest": F.max, "mean": F.avg, "total": F.sum}
aggregates = [aggregate("price").alias(name) for name, aggregate in prices.items()]
rows = bands.bids.groupBy("auction", bands.DAY).agg(*bands.COUNTS, *aggregates)
run(
    rows.select("auction", bands.START, *rows.columns[2:]),
    "auction INTEGER, start INTEGER, bids INTEGER, bids_low INTEGER, bids_middle INTEGER, bids_high INTEGER, "
    "lowest INTEGER, highest INTEGER, mean REAL, total INTEGER",
    "auction, start",
)
