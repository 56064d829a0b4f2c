"""How many bids somebody makes without a pause of ten seconds."""

from nexmark.bids import answer

answer(
    "bidder BIGINT, `start` STRING, bids BIGINT",
    """SELECT bidder, CAST(window_start AS STRING), COUNT(*)
    FROM TABLE(SESSION(TABLE bids PARTITION BY bidder, DESCRIPTOR(`at`), INTERVAL '10' SECOND))
    GROUP BY bidder, window_start, window_end""",
)
