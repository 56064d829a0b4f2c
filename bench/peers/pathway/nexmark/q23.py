"""Bids with their bidder and the auctions that the same person sells."""

from nexmark.events import auctions, bids, near, persons, read
from nexmark.rows import write

pairs = near(bids, persons, bids.bidder == persons.number)
named = pairs.select(bids.auction, bids.bidder, bids.price, bids.time, persons.name, persons.city)
sold = near(named, auctions, named.bidder == auctions.seller)
write(read, sold.select(named.auction, named.bidder, named.price, named.name, named.city, sold=auctions.number))
