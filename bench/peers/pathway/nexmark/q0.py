"""Bids as they are."""

import pathway as pw
from nexmark.rows import source, write

read, bids = source("url", "at")
write(read, bids.select(pw.this.auction, pw.this.bidder, pw.this.price, pw.this.url, pw.this.at))
