"""Aggregates by day, in all and in three bands of prices, in cents.

Files cannot take back a row, so the queries have windows of a day; without one they would change their rows.
"""

BANDS = {"": "TRUE", "_low": "price < 10000", "_middle": "price BETWEEN 10000 AND 999999", "_high": "price >= 1000000"}
START = "CAST(window_start AS STRING)"
BIDS = ", ".join(f"COUNT(*) FILTER (WHERE {where})" for where in BANDS.values())
DISTINCT = ", ".join(
    f"COUNT(DISTINCT {column}) FILTER (WHERE {where})" for column in ("bidder", "auction") for where in BANDS.values()
)
COUNTED = ", ".join(f"{what}{band} BIGINT" for what in ("bids", "bidders", "auctions") for band in BANDS)


def days(table):
    """The rows of a table with their day."""
    return f"TABLE(TUMBLE(TABLE {table}, DESCRIPTOR(`at`), INTERVAL '1' DAY))"
