"""Bids with their day, and their aggregates in all and in three bands of prices, in cents."""

import pathway as pw
from nexmark.rows import source

LOW, HIGH = pw.this.price < 10_000, pw.this.price >= 1_000_000
BANDS = {"low": LOW, "middle": ~LOW & ~HIGH, "high": HIGH}


def days(*names):
    """The input with these columns of the bids, and the bids with the start of their day."""
    read, bids = source("at", *names)
    return read, bids.with_columns(start=pw.this.at.str.slice(0, 10))


def bids():
    counts = {f"bids_{band}": pw.reducers.sum(pw.cast(int, where)) for band, where in BANDS.items()}
    return {"bids": pw.reducers.count(), **counts}


def distinct():
    """How many bidders and auctions there are. What is not in a band counts as one more value, and is taken off."""
    counts = {}
    for name, column in (("bidders", pw.this.bidder), ("auctions", pw.this.auction)):
        counts[name] = pw.reducers.count_distinct(column)
        for band, where in BANDS.items():
            outside = pw.reducers.max(pw.cast(int, ~where))
            counts[f"{name}_{band}"] = pw.reducers.count_distinct(pw.if_else(where, column, -1)) - outside
    return counts
