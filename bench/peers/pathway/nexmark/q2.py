"""Bids for every 123rd auction."""

import pathway as pw
from nexmark.bids import bids, read
from reading import run

chosen = bids.filter(pw.this.auction % 123 == 0).select(pw.this.auction, pw.this.price)
# A row that changes with every event says when the last one is done, also if it is not chosen.
progress = read.reduce(auction=-pw.reducers.count(), price=0)
run(read, chosen.concat_reindex(progress), ["auction", "price"], is_answer=lambda row: row["auction"] > 0)
