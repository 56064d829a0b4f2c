"""Bids as they are."""

from nexmark.rows import rows

flow = rows("q0", "{0[auction]},{0[bidder]},{0[price]},{0[url]},{0[at]}".format)
