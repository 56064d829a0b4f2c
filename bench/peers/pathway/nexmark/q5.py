"""The auctions with the most bids of ten seconds, every two seconds, with ties."""

from datetime import timedelta

import pathway as pw
from nexmark.bids import bids, read
from reading import run

window = pw.temporal.sliding(hop=timedelta(seconds=2), duration=timedelta(seconds=10))
windows = bids.windowby(pw.this.at, window=window, instance=pw.this.auction)
counts = windows.reduce(auctions=pw.this._pw_instance, start=pw.this._pw_window_start, bids=pw.reducers.count())
most = counts.groupby(pw.this.start).reduce(pw.this.start, bids=pw.reducers.max(pw.this.bids))
rows = counts.join(most, counts.start == most.start, counts.bids == most.bids)
run(read, rows.select(counts.start, counts.bids, counts.auctions), ["start", "bids", "auctions"])
