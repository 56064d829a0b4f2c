"""What the queries with joins have: an app, and its persons, auctions and bids, all in one stream."""

import os

import penstock as ps

EVENT = (
    "kind string, id bigint, name string, email string, card string, city string, state string, at timestamp, "
    "extra string, item string, description string, initial_bid bigint, reserve bigint, expires timestamp, "
    "seller bigint, category bigint, auction bigint, bidder bigint, price bigint, channel string, url string"
)
app = ps.App("nexmark")
events = app.stream(
    "events", ps.files(os.environ["PEERS_INPUT"]), schema=EVENT, event_time="at",
    watermark=ps.bounded("4 seconds", idle=None), keep="none",
)  # fmt: skip
persons, auctions, bids = (events.where(f"kind = '{kind}'") for kind in ("person", "auction", "bid"))


def join(name, left, right, on, within="1 minute"):
    """Pairs of a left and a right event; a minute is longer than anything in the input is apart."""
    return app.join(name, left, right, on=on, within=within, event_time="at", keep="none")
