"""Bids and distinct bidders and auctions of a day, in all and in three bands of prices."""

from bytewax import operators as op
from bytewax.dataflow import Dataflow
from nexmark.days import by_day, keyed
from nexmark.distinct import add, merged, nothing, shown
from reading import write


def row(item):
    key, day, counted = item
    return key, f"{day:%Y-%m-%d},{shown(counted)}"


flow = Dataflow("q15")
bids = keyed(flow, lambda bid: "all", "price", "bidder", "auction")
write(op.map("row", by_day("count", bids, nothing, add, merged), row))
