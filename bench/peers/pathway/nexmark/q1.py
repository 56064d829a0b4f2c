"""Bids with their price in another currency."""

import pathway as pw
from nexmark.rows import source, write

read, bids = source("at")
write(read, bids.select(pw.this.auction, pw.this.bidder, price=pw.cast(float, pw.this.price) * 0.908, at=pw.this.at))
