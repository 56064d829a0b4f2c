"""Bids as they are."""

from nexmark.bids import bids
from nexmark.rows import write

write(bids.where("bidder > 0").select("auction", "bidder", "price", "url", "at"))
