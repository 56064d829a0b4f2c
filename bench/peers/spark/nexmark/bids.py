"""What every query has: its session and its bids; the last line is nobody's.

Spark would leave that out before it moves the watermark, so each query does it where that matters.
"""

from session import read, session

spark = session()
BID = "auction bigint, bidder bigint, price bigint, channel string, url string, at timestamp, extra string"
bids = read(spark, BID).withWatermark("at", "4 seconds")
