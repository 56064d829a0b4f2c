"""How many bids somebody makes without a pause of ten seconds."""

from nexmark.bids import app, bids

import penstock as ps

app.view("q11", bids.group_by("bidder").window(ps.session("10 seconds")).agg(bids=ps.count()))
