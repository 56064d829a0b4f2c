"""The ten highest bids for an auction on a day; of equal ones those of the later bidders."""

from heapq import heappush, heappushpop, nlargest

from bytewax import operators as op
from bytewax.dataflow import Dataflow
from nexmark.days import by_day, keyed
from reading import write


def add(highest, bid):
    price, bidder, _ = bid
    (heappush if len(highest) < 10 else heappushpop)(highest, (price, bidder))
    return highest


def merged(a, b):
    return nlargest(10, [*a, *b])[::-1]


def rows(item):
    auction, day, highest = item
    return [(auction, f"{day:%Y-%m-%d},{auction},{price},{bidder}") for price, bidder in highest]


flow = Dataflow("q19")
bids = keyed(flow, lambda bid: str(bid["auction"]), "price", "bidder")
write(op.flat_map("rows", by_day("highest", bids, list, add, merged), rows))
