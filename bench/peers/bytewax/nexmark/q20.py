"""Bids with their auction, in category 10."""

from bytewax import operators as op
from bytewax.dataflow import Dataflow
from nexmark.events import by_key, events, pairs
from reading import write


def row(pair):
    bid, auction = pair
    values = [bid["auction"], bid["bidder"], bid["price"], f"{bid['at']:%Y-%m-%d %H:%M:%S.%f}"]
    return "0", ",".join(map(str, [*values, auction["seller"], auction["item"]]))


flow = Dataflow("q20")
stream = events(flow)
sold = by_key("auctions", stream, "auction", "id", lambda auction: auction["category"] == 10)
write(op.map("row", pairs("pair", by_key("bids", stream, "bid", "auction"), sold), row))
