"""How many bids somebody makes without a pause of ten seconds."""

from datetime import timedelta

from bytewax import operators as op
from bytewax.dataflow import Dataflow
from bytewax.operators.windowing import SessionWindower, fold_window
from nexmark.bids import bids, time_of
from reading import clock, write


def add(counted, item):
    n, first = counted
    return n + 1, min(first, item[0]) if first else item[0]


def merged(a, b):
    return a[0] + b[0], min(a[1], b[1])


def row(item):
    bidder, (_, (n, first)) = item
    return bidder, f"{bidder},{first:%Y-%m-%d %H:%M:%S.%f},{n}"


flow = Dataflow("q11")
keyed = op.map("key", bids(flow), lambda item: (str(item[0]["bidder"]), (item[1],)))
windower = SessionWindower(gap=timedelta(seconds=10))
sessions = fold_window("count", keyed, clock(time_of), windower, lambda: (0, None), add, merged, False)
write(op.map("row", sessions.down, row))
