"""What the queries with joins have: some columns of the persons, auctions or bids, which are in one stream."""

import polars as pl
from answer import TIME, scan

KINDS = {
    "id": pl.Int64, "name": pl.String, "city": pl.String, "state": pl.String, "item": pl.String,
    "expires": pl.String, "seller": pl.Int64, "category": pl.Int64, "auction": pl.Int64, "bidder": pl.Int64,
    "price": pl.Int64,
}  # fmt: skip


def events(kind, *names):
    """The events of a kind with these columns and their time; the last line is in no pair."""
    found = scan(kind=pl.String, at=pl.String, **{name: KINDS[name] for name in names})
    return found.filter(pl.col("kind") == kind).select(TIME, *names)


def near(time, other):
    """That two times are a minute apart at most."""
    return (pl.col(time) - pl.col(other)).is_between(pl.duration(minutes=-1), pl.duration(minutes=1))
