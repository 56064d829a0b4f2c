"""Bids with their auction, in category 10."""

from nexmark.events import app, auctions, bids, join
from nexmark.rows import write

offers = bids.select("auction", "bidder", "price", "at")
sold = auctions.where("category = 10").select("seller", "item", sold="id", opens="at")
rows = join("offers", offers, sold, on="auction = sold")
write(app, rows.select("auction", "bidder", "price", "at", "seller", "item"))
