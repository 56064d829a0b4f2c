"""The last bid of somebody for an auction on a day; of several in one millisecond the highest."""

from nexmark.bands import START, days
from nexmark.bids import answer

answer(
    "`start` STRING, bidder BIGINT, auction BIGINT, price BIGINT, channel STRING, url STRING, `at` STRING",
    f"""SELECT {START}, bidder, auction, price, channel, url, CAST(`at` AS STRING)
    FROM (
        SELECT *, ROW_NUMBER() OVER (
            PARTITION BY window_start, window_end, bidder, auction ORDER BY `at` DESC, price DESC
        ) AS place
        FROM {days("bids")}
    ) WHERE place <= 1""",
)
