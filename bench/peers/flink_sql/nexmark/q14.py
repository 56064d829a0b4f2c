"""Bids in a band of prices, with the part of the day and how many letters c they have."""

from nexmark.bids import answer

PRICE = "CAST(price AS DOUBLE) * CAST(0.908 AS DOUBLE)"
answer(
    "auction BIGINT, bidder BIGINT, price DOUBLE, part STRING, `at` STRING, c INT",
    f"""SELECT auction, bidder, {PRICE}, CASE
        WHEN HOUR(`at`) BETWEEN 8 AND 18 THEN 'dayTime'
        WHEN HOUR(`at`) <= 6 OR HOUR(`at`) >= 20 THEN 'nightTime' ELSE 'otherTime' END,
        CAST(`at` AS STRING), CHAR_LENGTH(extra) - CHAR_LENGTH(REPLACE(extra, 'c', ''))
    FROM bids WHERE {PRICE} > 1000000 AND {PRICE} < 50000000""",
)
