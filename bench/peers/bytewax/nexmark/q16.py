"""Bids and distinct bidders and auctions of a channel and day, and the last minute in which it was seen."""

from bytewax import operators as op
from bytewax.dataflow import Dataflow
from nexmark.days import by_day, keyed
from nexmark.distinct import add, merged, nothing, shown
from reading import write


def row(item):
    channel, day, counted = item
    return channel, f"{channel},{day:%Y-%m-%d},{counted[-1]},{shown(counted)}"


flow = Dataflow("q16")
bids = keyed(flow, lambda bid: bid["channel"], "price", "bidder", "auction")
write(op.map("row", by_day("count", bids, nothing, add, merged), row))
