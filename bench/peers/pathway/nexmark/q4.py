"""What auctions fetch on average, by category and day."""

import pathway as pw
from nexmark.events import read
from nexmark.rows import write
from nexmark.winning import winning

means = winning.groupby(pw.this.start, pw.this.category).reduce(
    pw.this.start, pw.this.category, auctions=pw.reducers.count(), mean=pw.reducers.avg(pw.this.price)
)
write(read, means, "auctions")
