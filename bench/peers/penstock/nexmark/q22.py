"""The three directories of a bid's address."""

from nexmark.bids import app, bids
from nexmark.rows import write

parts = {f"dir{place}": f"split_part(url, '/', {place + 3})" for place in (1, 2, 3)}
write(app, bids.select("auction", "bidder", "price", "channel", **parts))
