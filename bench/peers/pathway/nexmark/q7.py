"""The highest bids of ten seconds, with ties."""

from datetime import timedelta

import pathway as pw
from nexmark.bids import bids, read
from reading import run

named = bids.select(pw.this.price, pw.this.at, bids=pw.cast(str, pw.this.auction) + " " + pw.cast(str, pw.this.bidder))
window = pw.temporal.tumbling(duration=timedelta(seconds=10))
windows = named.windowby(pw.this.at, window=window)
most = windows.reduce(start=pw.this._pw_window_start, price=pw.reducers.max(pw.this.price))
started = named.select(pw.this.price, pw.this.bids, start=pw.this.at.dt.floor(timedelta(seconds=10)))
rows = started.join(most, started.start == most.start, started.price == most.price)
run(read, rows.select(started.start, started.price, started.bids), ["start", "price", "bids"])
