"""Bids and distinct bidders and auctions of a channel and day, and the last minute in which it was seen."""

import pathway as pw
from nexmark import bands
from nexmark.rows import write

read, bids = bands.days("channel")
minute = pw.reducers.max(pw.this.at.str.slice(11, 16))
days = bids.groupby(pw.this.channel, pw.this.start)
write(read, days.reduce(pw.this.channel, pw.this.start, minute=minute, **bands.bids(), **bands.distinct()), "bids")
