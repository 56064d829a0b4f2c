"""Bids with their price in another currency."""

from nexmark.bids import answer

answer(
    "auction BIGINT, bidder BIGINT, price DOUBLE, `at` STRING",
    "SELECT auction, bidder, CAST(price AS DOUBLE) * CAST(0.908 AS DOUBLE), CAST(`at` AS STRING) FROM bids",
)
