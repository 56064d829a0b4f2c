"""The auctions with the most bids of ten seconds, every two seconds, with ties."""

from nexmark.bids import answer

COUNTS = """SELECT auction, COUNT(*) AS n, window_start, window_end
    FROM TABLE(HOP(TABLE bids, DESCRIPTOR(`at`), INTERVAL '2' SECOND, INTERVAL '10' SECOND))
    GROUP BY auction, window_start, window_end"""
answer(
    "`start` STRING, bids BIGINT, auctions BIGINT",
    f"""SELECT CAST(counts.window_start AS STRING), n, auction
    FROM ({COUNTS}) AS counts JOIN (
        SELECT MAX(n) AS most, window_start, window_end FROM ({COUNTS}) GROUP BY window_start, window_end
    ) AS highest
    ON counts.window_start = highest.window_start AND counts.window_end = highest.window_end AND n = most""",
)
