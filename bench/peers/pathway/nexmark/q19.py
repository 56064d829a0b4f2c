"""The ten highest bids for an auction on a day; of equal ones those of the later bidders."""

import pathway as pw
from nexmark import bands
from nexmark.rows import write


@pw.udf
def highest(bids: tuple[tuple[int, int], ...]) -> tuple[tuple[int, int], ...]:
    return bids[-10:]


read, bids = bands.days()
every = pw.reducers.sorted_tuple(pw.make_tuple(pw.this.price, pw.this.bidder))
auctions = bids.groupby(pw.this.start, pw.this.auction).reduce(pw.this.start, pw.this.auction, bids=highest(every))
rows = auctions.flatten(pw.this.bids)
write(read, rows.select(pw.this.start, pw.this.auction, price=pw.this.bids[0], bidder=pw.this.bids[1]))
