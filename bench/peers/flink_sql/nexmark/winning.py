"""The bids that win auctions, by day: the highest while they are open, of equal ones the earliest."""

from nexmark.bands import days
from nexmark.events import environment

environment.execute_sql(
    """CREATE VIEW offers AS SELECT bid.auction, auction.category, bid.price, bid.bidder, bid.`at`
    FROM bid JOIN auction ON bid.auction = auction.id
    AND bid.`at` BETWEEN auction.`at` AND auction.`at` + INTERVAL '1' MINUTE AND bid.`at` <= auction.expires"""
)
WINNING = f"""(
    SELECT *
    FROM (
        SELECT *, ROW_NUMBER() OVER (
            PARTITION BY window_start, window_end, auction ORDER BY price DESC, `at`, bidder
        ) AS place
        FROM {days("offers")}
    ) WHERE place <= 1
)"""
