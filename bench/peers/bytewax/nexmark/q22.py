"""The three directories of a bid's address."""

from nexmark.rows import rows


def row(bid):
    parts = ",".join(bid["url"].split("/")[3:6])
    return f"{bid['auction']},{bid['bidder']},{bid['price']},{bid['channel']},{parts}"


flow = rows("q22", row)
