"""Bids and distinct bidders and auctions of a day, in all and in three bands of prices."""

import pathway as pw
from nexmark import bands
from nexmark.rows import write

read, bids = bands.days()
write(read, bids.groupby(pw.this.start).reduce(pw.this.start, **bands.bids(), **bands.distinct()), "bids")
