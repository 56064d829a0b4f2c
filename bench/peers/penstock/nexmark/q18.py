"""The last bid of somebody for an auction on a day; of several in one millisecond the highest."""

from nexmark.bands import DAY
from nexmark.bids import app, bids

import penstock as ps

# A price has nine digits, and a day's milliseconds eight more.
ORDER = "(unix_millis(at) % 86400000) * 1000000000 + price"
last = {name: ps.max_by(name, ORDER) for name in ("price", "channel", "url", "at")}
app.view("q18", bids.group_by("bidder", "auction").window(DAY).agg(**last))
