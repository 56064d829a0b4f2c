"""Winning bids of auctions, by day: the highest while they are open, of equal ones the earliest."""

from nexmark.bands import DAY
from nexmark.events import auctions, bids, join

import penstock as ps

#: First the price, of nine digits, then how early a bid came, then the smallest bidder, of six digits.
ORDER = "price * 10000000000 - (unix_millis(at) - unix_millis(opens)) * 1000000 - bidder"


def winning():
    """The winning bid of each auction; where another one wins later, the first is taken back."""
    offers = bids.select("auction", "bidder", "price", "at")
    sold = auctions.select("category", "expires", sold="id", opens="at")
    open_ = join("open", offers, sold, on="auction = sold", within=("-1 minute", "0 seconds")).where("at <= expires")
    best = {name: ps.max_by(name, ORDER) for name in ("price", "bidder", "at")}
    return open_.group_by("auction", "category").window(DAY).agg(**best).retracting()
