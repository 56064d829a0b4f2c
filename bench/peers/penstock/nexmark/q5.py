"""The auctions with the most bids of ten seconds, every two seconds, with ties."""

from nexmark.bids import app, bids

import penstock as ps

window = ps.sliding("10 seconds", every="2 seconds")
counts = app.view("counts", bids.group_by("auction").window(window).agg(bids=ps.count()).retracting())
levels = counts.changes().group_by("bids").window(ps.window_of()).agg(auctions=ps.collect_set("auction"))
levels = app.view("levels", levels.retracting())
most = levels.changes().window(ps.window_of()).agg(bids=ps.max("bids"), auctions=ps.max_by("auctions", "bids"))
app.view("q5", most)
