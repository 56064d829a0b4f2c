"""The bid that wins an auction."""

from nexmark.bands import START
from nexmark.events import answer
from nexmark.winning import WINNING

answer(
    "`start` STRING, auction BIGINT, category BIGINT, price BIGINT, bidder BIGINT, `at` STRING",
    f"SELECT {START}, auction, category, price, bidder, CAST(`at` AS STRING) FROM {WINNING}",
)
