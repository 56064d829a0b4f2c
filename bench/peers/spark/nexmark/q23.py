"""Bids with their bidder and the auctions that the same person sells."""

from nexmark.events import auctions, bids, near, persons
from nexmark.rows import write
from pyspark.sql import functions as F

offers, sold = bids("auction", "bidder", "price"), auctions("id AS sold", "seller")
named = offers.join(persons("id", "name", "city"), F.expr(f"bidder = id AND {near('at', 'born')}"))
pairs = named.join(sold, F.expr(f"bidder = seller AND {near('at', 'opens')}"))
write(pairs.select("auction", "bidder", "price", "name", "city", "sold"))
