"""Bids with their bidder and the auctions that the same person sells."""

from nexmark.events import app, auctions, bids, join, persons
from nexmark.rows import write

offers = bids.select("auction", "bidder", "price", "at")
named = join("named", offers, persons.select("name", "city", person="id", born="at"), on="bidder = person")
sold = join("sold", named, auctions.select("seller", sold="id", opens="at"), on="bidder = seller")
write(app, sold.select("auction", "bidder", "price", "name", "city", "sold"))
