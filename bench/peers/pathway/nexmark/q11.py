"""How many bids somebody makes without a pause of ten seconds."""

from datetime import timedelta

import pathway as pw
from nexmark.bids import bids, read
from reading import run

window = pw.temporal.session(max_gap=timedelta(seconds=10))
windows = bids.windowby(pw.this.at, window=window, instance=pw.this.bidder)
counts = windows.reduce(bidder=pw.this._pw_instance, start=pw.this._pw_window_start, bids=pw.reducers.count())
run(read, counts, ["bidder", "start", "bids"])
