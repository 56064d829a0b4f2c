"""The three directories of a bid's address."""

from nexmark.bids import answer

parts = ", ".join(f"SPLIT_INDEX(url, '/', {place + 2})" for place in (1, 2, 3))
answer(
    "auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, dir1 STRING, dir2 STRING, dir3 STRING",
    f"SELECT auction, bidder, price, channel, {parts} FROM bids",
)
