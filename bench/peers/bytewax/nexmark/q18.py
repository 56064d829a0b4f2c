"""The last bid of somebody for an auction on a day; of several in one millisecond the highest."""

from bytewax import operators as op
from bytewax.dataflow import Dataflow
from nexmark.days import by_day, keyed
from reading import write


def add(known, bid):
    price, channel, url, time = bid
    return max(known, (time, price, channel, url)) if known else (time, price, channel, url)


def row(item):
    key, day, (time, price, channel, url) = item
    return key, f"{day:%Y-%m-%d},{key},{price},{channel},{url},{time:%Y-%m-%d %H:%M:%S.%f}"


flow = Dataflow("q18")
bids = keyed(flow, lambda bid: f"{bid['bidder']},{bid['auction']}", "price", "channel", "url")
write(op.map("row", by_day("last", bids, tuple, add, max), row))
