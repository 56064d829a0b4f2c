"""The ten highest bids for an auction on a day; of equal ones those of the later bidders."""

from nexmark.bands import START, days
from nexmark.bids import answer

answer(
    "`start` STRING, auction BIGINT, price BIGINT, bidder BIGINT",
    f"""SELECT {START}, auction, price, bidder
    FROM (
        SELECT *, ROW_NUMBER() OVER (
            PARTITION BY window_start, window_end, auction ORDER BY price DESC, bidder DESC
        ) AS place
        FROM {days("bids")}
    ) WHERE place <= 10""",
)
