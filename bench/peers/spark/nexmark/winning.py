"""Winning bids of auctions, by day: the highest while they are open, of equal ones the earliest.

An aggregation behind a join gives out windows only when they are closed, so the sink keeps the highest of what it gets.
"""

from nexmark.events import auctions, bids
from pyspark.sql import functions as F
from session import run

KEEP = """INSERT INTO answer VALUES ({}) ON CONFLICT (start, auction) DO UPDATE
    SET price = excluded.price, bidder = excluded.bidder, at = excluded.at
    WHERE (excluded.price, -excluded.at, -excluded.bidder) > (answer.price, -answer.at, -answer.bidder)"""


def highest(batch):
    """The winning bids of a batch."""
    best = F.max_by(F.struct("price", "bidder", "at"), F.struct("price", -F.col("at"), -F.col("bidder")))
    winning = batch.groupBy("start", "auction", "category").agg(best.alias("best"))
    return winning.select("start", "auction", "category", "best.*")


def run_winning():
    """Writes the winning bids into the table `answer`."""
    sold = auctions("id", "category", "expires")
    inside = "auction = id AND opens BETWEEN at - INTERVAL 1 MINUTE AND at AND at <= expires"
    pairs = bids("auction", "bidder", "price").join(sold, F.expr(inside))
    start = F.unix_micros(F.date_trunc("day", "at")).alias("start")
    run(
        pairs.select(start, "auction", "category", "price", "bidder", F.unix_micros("at").alias("at")),
        "start INTEGER, auction INTEGER, category INTEGER, price INTEGER, bidder INTEGER, at INTEGER",
        "start, auction", "append", highest, KEEP,
    )  # fmt: skip
