"""Bids and distinct bidders and auctions of a day, in all and in three bands of prices."""

from answer import write
from nexmark import bands
from nexmark.bids import bids

write(bids("auction", "bidder", "price", "at").group_by(start=bands.DAY).agg(**bands.bids, **bands.distinct))
