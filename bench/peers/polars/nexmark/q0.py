"""Bids as they are."""

from answer import write
from nexmark.bids import bids

write(bids("auction", "bidder", "price", "url", "at"))
