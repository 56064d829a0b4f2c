"""Bids as they are."""

from nexmark.bids import answer

answer(
    "auction BIGINT, bidder BIGINT, price BIGINT, url STRING, `at` STRING",
    "SELECT auction, bidder, price, url, CAST(`at` AS STRING) FROM bids",
)
