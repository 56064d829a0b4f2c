"""What the queries with joins have: their session, and persons, auctions and bids, which are in one stream.

The last line, a bid, is nobody's.
"""

from pyspark.sql import functions as F
from session import read, session

spark = session()
EVENT = (
    "kind string, id bigint, name string, email string, card string, city string, state string, at timestamp, "
    "extra string, item string, description string, initial_bid bigint, reserve bigint, expires timestamp, "
    "seller bigint, category bigint, auction bigint, bidder bigint, price bigint, channel string, url string"
)


def events(kinds, *columns, where="true"):
    """The events of some kinds, with their time."""
    return read(spark, EVENT).where(F.col("kind").isin(kinds)).where(where).selectExpr(*columns)


def timed(rows, time="at"):
    return rows.withWatermark(time, "4 seconds")


def persons(*columns, where="true"):
    """Persons with these columns and when they were born."""
    return timed(events(["person"], *columns, "at AS born", where=where), "born")


def auctions(*columns, where="true"):
    """Auctions with these columns and when they open."""
    return timed(events(["auction"], *columns, "at AS opens", where=where), "opens")


def bids(*columns):
    """Bids with these columns and their time."""
    return timed(events(["bid"], *columns, "at", where="bidder > 0"))


def near(time, other):
    """That two times are a minute apart at most."""
    return f"{other} BETWEEN {time} - INTERVAL 1 MINUTE AND {time} + INTERVAL 1 MINUTE"
