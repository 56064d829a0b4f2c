"""Bids with their price in another currency."""

from nexmark.rows import rows


def row(bid):
    return f"{bid['auction']},{bid['bidder']},{bid['price'] * 0.908},{bid['at']}"


flow = rows("q1", row)
