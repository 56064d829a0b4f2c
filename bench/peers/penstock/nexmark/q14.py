"""Bids in a band of prices, with the part of the day and how many letters c they have."""

from nexmark.bids import app, bids
from nexmark.rows import write

PRICE = "CAST(price AS DOUBLE) * 0.908D"
PART = """CASE WHEN hour(at) >= 8 AND hour(at) <= 18 THEN 'dayTime'
    WHEN hour(at) <= 6 OR hour(at) >= 20 THEN 'nightTime' ELSE 'otherTime' END"""
chosen = bids.where(f"{PRICE} > 1000000 AND {PRICE} < 50000000")
letters = "length(extra) - length(replace(extra, 'c', ''))"
write(app, chosen.select("auction", "bidder", price=PRICE, part=PART, at="at", c=letters))
