"""Bids with their price in another currency."""

from nexmark.bids import bids
from nexmark.rows import write

write(bids.where("bidder > 0").selectExpr("auction", "bidder", "CAST(price AS DOUBLE) * 0.908D AS price", "at"))
