"""Bids for every 123rd auction."""

from nexmark.bids import bids
from nexmark.rows import write

write(bids.where("auction % 123 = 0 AND bidder > 0").select("auction", "price"))
