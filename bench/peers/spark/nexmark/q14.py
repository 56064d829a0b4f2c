"""Bids in a band of prices, with the part of the day and how many letters c they have."""

from nexmark.bids import bids
from nexmark.rows import write

PRICE = "CAST(price AS DOUBLE) * 0.908D"
PART = """CASE WHEN hour(at) BETWEEN 8 AND 18 THEN 'dayTime'
    WHEN hour(at) <= 6 OR hour(at) >= 20 THEN 'nightTime' ELSE 'otherTime' END"""
chosen = bids.where(f"{PRICE} > 1000000 AND {PRICE} < 50000000")
letters = "length(extra) - length(replace(extra, 'c', '')) AS c"
write(chosen.selectExpr("auction", "bidder", f"{PRICE} AS price", f"{PART} AS part", "at", letters))
