"""Bids and distinct bidders and auctions of a day, in all and in three bands of prices."""

from nexmark import bands
from session import run

counts = bands.bids.groupBy(bands.DAY).agg(*bands.COUNTS, *bands.DISTINCT)
run(counts.select(bands.START, *counts.columns[1:]), f"start INTEGER, {bands.COUNTED}", "start")
