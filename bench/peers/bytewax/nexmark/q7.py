"""The highest bids of ten seconds, with ties."""

from bytewax import operators as op
from bytewax.dataflow import Dataflow
from bytewax.operators.windowing import fold_window
from nexmark.bids import bids, start, time_of
from reading import LENGTH, clock, ten_seconds, write

#: The highest bids of parts of the bids, then of all: one key alone would be one worker's.
PARTS = 16


def price_of(item):
    bid, time = item
    return str(bid["bidder"] % PARTS), (bid["price"], f"{bid['auction']} {bid['bidder']}", time)


def highest(best, bid):
    if not best or bid[0] > best[0][0]:
        return [bid]
    return [*best, bid] if bid[0] == best[0][0] else best


def merged(a, b):
    for bid in b:
        a = highest(a, bid)
    return a


def rows(item):
    _, (window, best) = item
    return [("0", f"{start(window, LENGTH):%Y-%m-%d %H:%M:%S},{price},{bid}") for price, bid, _ in best]


flow = Dataflow("q7")
prices = op.map("price", bids(flow), price_of)
parts = fold_window("parts", prices, clock(time_of), ten_seconds(), list, highest, merged, False)
best = op.flat_map("best", parts.down, lambda item: [("all", bid) for bid in item[1][1]])
every = fold_window("all", best, clock(time_of), ten_seconds(), list, highest, merged, False)
write(op.flat_map("rows", every.down, rows))
