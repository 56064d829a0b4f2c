"""Bids in a band of prices, with the part of the day and how many letters c they have."""

from nexmark.rows import rows


def row(bid):
    price = bid["price"] * 0.908
    if not 1_000_000 < price < 50_000_000:
        return None
    hour = int(bid["at"][11:13])
    part = "dayTime" if 8 <= hour <= 18 else "nightTime" if hour <= 6 or hour >= 20 else "otherTime"
    return f"{bid['auction']},{bid['bidder']},{price},{part},{bid['at']},{bid['extra'].count('c')}"


flow = rows("q14", row)
