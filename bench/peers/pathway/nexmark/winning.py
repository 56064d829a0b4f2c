"""The bids that win auctions, by day: the highest while they are open, of equal ones the earliest."""

from datetime import timedelta

import pathway as pw
from nexmark.events import auctions, bids, near

BEFORE = pw.temporal.interval(-timedelta(minutes=1), timedelta(0))
pairs = near(bids, auctions, bids.auction == auctions.number, within=BEFORE).select(
    bids.auction, bids.bidder, bids.price, bids.at, bids.time, auctions.category, auctions.expires
)
inside = pairs.filter(pw.this.at <= pw.this.expires).with_columns(start=pw.this.at.str.slice(0, 10))
# The smallest of these is the winner's.
order = pw.make_tuple(-pw.this.price, pw.this.time.dt.timestamp(unit="ms"), pw.this.bidder)
ranked = inside.with_columns(order=order)
best = {name: pw.reducers.argmin(pw.this.order, pw.this[name]) for name in ("price", "bidder", "at")}
winning = ranked.groupby(pw.this.start, pw.this.auction, pw.this.category).reduce(
    pw.this.start, pw.this.auction, pw.this.category, **best
)
