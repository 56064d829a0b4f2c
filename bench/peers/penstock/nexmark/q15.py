"""Bids and distinct bidders and auctions of a day, in all and in three bands of prices."""

from nexmark import bands
from nexmark.bids import app, bids

app.view("q15", bids.window(bands.DAY).agg(**bands.bids, **bands.distinct))
