"""Bids with their price in another currency."""

from nexmark.bids import app, bids
from nexmark.rows import write

write(app, bids.select("auction", "bidder", price="CAST(price AS DOUBLE) * 0.908D", at="at"))
