"""Bids and distinct bidders and auctions of a channel and day, and the last minute in which it was seen."""

from nexmark.bands import BIDS, COUNTED, DISTINCT, START, days
from nexmark.bids import answer

answer(
    f"channel STRING, `start` STRING, `minute` STRING, {COUNTED}",
    f"""SELECT channel, {START}, MAX(DATE_FORMAT(`at`, 'HH:mm')), {BIDS}, {DISTINCT}
    FROM {days("bids")} GROUP BY channel, window_start, window_end""",
)
