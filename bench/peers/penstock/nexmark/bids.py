"""What every query has: an app, and its stream of bids; the last line is nobody's."""

import os

import penstock as ps

BID = "auction bigint, bidder bigint, price bigint, channel string, url string, at timestamp, extra string"
app = ps.App("nexmark")
bids = app.stream(
    "bids", ps.files(os.environ["PEERS_INPUT"]), schema=BID, event_time="at",
    watermark=ps.bounded("4 seconds", idle=None), keep="none",
).where("bidder > 0")  # fmt: skip
