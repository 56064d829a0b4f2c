"""The highest bids of ten seconds, with ties."""

from nexmark.bids import answer

BIDS = "TABLE(TUMBLE(TABLE bids, DESCRIPTOR(`at`), INTERVAL '10' SECOND))"
answer(
    "`start` STRING, price BIGINT, bids STRING",
    f"""SELECT CAST(bid.window_start AS STRING), price, CONCAT_WS(' ', CAST(auction AS STRING), CAST(bidder AS STRING))
    FROM {BIDS} AS bid JOIN (
        SELECT MAX(price) AS most, window_start, window_end FROM {BIDS} GROUP BY window_start, window_end
    ) AS highest
    ON bid.window_start = highest.window_start AND bid.window_end = highest.window_end AND price = most""",
)
