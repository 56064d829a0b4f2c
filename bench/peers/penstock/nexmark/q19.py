"""The ten highest bids for an auction on a day; of equal ones those of the later bidders."""

from nexmark.bands import DAY
from nexmark.bids import app, bids

import penstock as ps

# A bidder's number has at most nine digits.
ORDER = "price * 1000000000 + bidder"
highest = {name: ps.top(10, ORDER, value=name) for name in ("price", "bidder")}
app.view("q19", bids.group_by("auction").window(DAY).agg(**highest))
