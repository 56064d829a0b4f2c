"""Bids for every 123rd auction."""

import pathway as pw
from nexmark.bids import bids, read
from reading import run

run(read, bids.filter(pw.this.auction % 123 == 0).select(pw.this.auction, pw.this.price), ["auction", "price"])
