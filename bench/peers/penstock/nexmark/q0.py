"""Bids as they are."""

from nexmark.bids import app, bids
from nexmark.rows import write

write(app, bids.select("auction", "bidder", "price", "url", "at"))
