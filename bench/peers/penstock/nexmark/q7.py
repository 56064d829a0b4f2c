"""The highest bids of ten seconds, with ties."""

from nexmark.bids import app, bids

import penstock as ps

bid = "concat_ws(' ', CAST(auction AS STRING), CAST(bidder AS STRING))"
highest = ps.top(1, "price", value=bid, ties=True)
app.view("q7", bids.window(ps.fixed("10 seconds")).agg(price=ps.max("price"), bids=highest))
