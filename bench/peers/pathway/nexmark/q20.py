"""Bids with their auction, in category 10."""

import pathway as pw
from nexmark.events import auctions, bids, near, read
from nexmark.rows import write

sold = auctions.filter(pw.this.category == 10)
pairs = near(bids, sold, bids.auction == sold.number)
write(read, pairs.select(bids.auction, bids.bidder, bids.price, bids.at, sold.seller, sold.item))
