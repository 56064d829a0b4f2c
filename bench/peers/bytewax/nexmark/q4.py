"""What auctions fetch on average, by category and day."""

from bytewax import operators as op
from bytewax.dataflow import Dataflow
from nexmark.days import by_day
from nexmark.winning import winning
from reading import write


def price_of(item):
    key, day, (price, *_) = item
    return key.partition(",")[2], (-price, day)


def row(item):
    category, day, (n, total) = item
    return category, f"{day:%Y-%m-%d},{category},{n},{total / n}"


def add(sums, item):
    return sums[0] + 1, sums[1] + item[0]


def merged(a, b):
    return a[0] + b[0], a[1] + b[1]


flow = Dataflow("q4")
prices = op.map("price", winning(flow), price_of)
write(op.map("row", by_day("mean", prices, lambda: (0, 0), add, merged), row))
