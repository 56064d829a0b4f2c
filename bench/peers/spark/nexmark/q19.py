"""The ten highest bids for an auction on a day; of equal ones those of the later bidders."""

from nexmark import bands
from pyspark.sql import functions as F
from session import run

bid = F.struct("price", "bidder")
rows = bands.bids.groupBy(bands.DAY, "auction").agg(F.max_by(bid, bid, 10).alias("highest"))
places = rows.select(bands.START, "auction", F.posexplode("highest").alias("place", "bid"))
run(
    places.select("start", "auction", "place", "bid.*"),
    "start INTEGER, auction INTEGER, place INTEGER, price INTEGER, bidder INTEGER",
    "start, auction, place",
)
