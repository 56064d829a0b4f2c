"""What every query has: some columns of its bids; the last line is nobody's."""

import polars as pl
from answer import TIME, scan

KINDS = {
    "auction": pl.Int64, "bidder": pl.Int64, "price": pl.Int64, "channel": pl.String, "url": pl.String,
    "at": pl.String, "extra": pl.String,
}  # fmt: skip


def bids(*names):
    """Bids with these columns, and with their time if it is one of them."""
    found = scan(**{name: KINDS[name] for name in ("bidder", *names)}).filter(pl.col("bidder") > 0)
    return found.select(TIME if name == "at" else name for name in names)
