"""What the queries that give out rows have: a flow from each bid to a line of CSV, or to none."""

from bytewax import operators as op
from bytewax.dataflow import Dataflow
from nexmark.bids import bids
from reading import write


def rows(name, row):
    """A flow. `row` has the line of a bid, or None."""
    flow = Dataflow(name)

    def keyed(item):
        line = row(item[0])
        return None if line is None else ("0", line)

    write(op.filter_map("row", bids(flow), keyed))
    return flow
