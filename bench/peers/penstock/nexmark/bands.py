"""Aggregates in all and in three bands of prices, in cents."""

import penstock as ps

BANDS = {"": None, "_low": "price < 10000", "_middle": "price BETWEEN 10000 AND 999999", "_high": "price >= 1000000"}
DAY = ps.calendar("day")
bids = {f"bids{band}": ps.count(where=where) for band, where in BANDS.items()}
distinct = {
    f"{column}s{band}": ps.count_distinct(column, where=where)
    for column in ("bidder", "auction")
    for band, where in BANDS.items()
}
