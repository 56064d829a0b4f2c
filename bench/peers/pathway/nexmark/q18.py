"""The last bid of somebody for an auction on a day; of several in one millisecond the highest."""

import pathway as pw
from nexmark import bands
from nexmark.rows import write

read, bids = bands.days("channel", "url")
ranked = bids.with_columns(rank=pw.make_tuple(pw.this.at, pw.this.price))
last = {name: pw.reducers.argmax(pw.this.rank, pw.this[name]) for name in ("price", "channel", "url", "at")}
rows = ranked.groupby(pw.this.start, pw.this.bidder, pw.this.auction)
write(read, rows.reduce(pw.this.start, pw.this.bidder, pw.this.auction, **last))
