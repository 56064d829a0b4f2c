"""Bids with their auction, in category 10."""

from nexmark.events import auctions, bids, near
from nexmark.rows import write
from pyspark.sql import functions as F

sold = auctions("id", "seller", "item", where="category = 10")
pairs = bids("auction", "bidder", "price").join(sold, F.expr(f"auction = id AND {near('at', 'opens')}"))
write(pairs.select("auction", "bidder", "price", "at", "seller", "item"))
