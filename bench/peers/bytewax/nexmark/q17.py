"""The bids for an auction on a day."""

from bytewax import operators as op
from bytewax.dataflow import Dataflow
from nexmark.days import band, by_day, keyed
from reading import write


def add(known, bid):
    price, which = bid[0], band(bid[0])
    one = (1, which == 1, which == 2, which == 3, price, price, price)
    return merged(known, one) if known else one


def merged(a, b):
    return (
        *(one + other for one, other in zip(a[:4], b[:4], strict=True)),
        min(a[4], b[4]),
        max(a[5], b[5]),
        a[6] + b[6],
    )


def row(item):
    auction, day, (*counts, lowest, highest, total) = item
    numbers = ",".join(str(int(count)) for count in counts)
    return auction, f"{auction},{day:%Y-%m-%d},{numbers},{lowest},{highest},{total / counts[0]},{total}"


flow = Dataflow("q17")
bids = keyed(flow, lambda bid: str(bid["auction"]), "price")
write(op.map("row", by_day("count", bids, tuple, add, merged), row))
