"""The bids for an auction on a day."""

import pathway as pw
from nexmark import bands
from nexmark.rows import write

read, bids = bands.days()
price = pw.this.price
rows = bids.groupby(pw.this.auction, pw.this.start).reduce(
    pw.this.auction, pw.this.start, **bands.bids(), lowest=pw.reducers.min(price), highest=pw.reducers.max(price),
    mean=pw.reducers.avg(price), total=pw.reducers.sum(price),
)  # fmt: skip
write(read, rows)
