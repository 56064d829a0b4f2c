"""The bid that wins an auction."""

from bytewax import operators as op
from bytewax.dataflow import Dataflow
from nexmark.winning import winning
from reading import write


def row(item):
    key, day, (price, time, bidder) = item
    return key, f"{day:%Y-%m-%d},{key},{-price},{bidder},{time:%Y-%m-%d %H:%M:%S.%f}"


flow = Dataflow("q9")
write(op.map("row", winning(flow), row))
