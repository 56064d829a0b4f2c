"""The three directories of a bid's address."""

from nexmark.bids import bids
from nexmark.rows import write

parts = [f"split_part(url, '/', {place + 3}) AS dir{place}" for place in (1, 2, 3)]
write(bids.where("bidder > 0").selectExpr("auction", "bidder", "price", "channel", *parts))
