"""Bids and distinct bidders and auctions of a day, in all and in three bands of prices."""

from nexmark.bands import BIDS, COUNTED, DISTINCT, START, days
from nexmark.bids import answer

answer(
    f"`start` STRING, {COUNTED}",
    f"SELECT {START}, {BIDS}, {DISTINCT} FROM {days('bids')} GROUP BY window_start, window_end",
)
