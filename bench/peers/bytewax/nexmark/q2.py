"""Bids for every 123rd auction."""

from bytewax import operators as op
from bytewax.dataflow import Dataflow
from nexmark.bids import bids
from reading import write


def chosen(item):
    bid, _ = item
    return None if bid["auction"] % 123 else ("0", f"{bid['auction']},{bid['price']}")


flow = Dataflow("q2")
write(op.filter_map("choose", bids(flow), chosen))
