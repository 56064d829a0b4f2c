"""The bids for an auction on a day."""

from nexmark.bands import BIDS, START, days
from nexmark.bids import answer

answer(
    "auction BIGINT, `start` STRING, bids BIGINT, bids_low BIGINT, bids_middle BIGINT, bids_high BIGINT, "
    "lowest BIGINT, highest BIGINT, mean DOUBLE, total BIGINT",
    f"""SELECT auction, {START}, {BIDS}, MIN(price), MAX(price), AVG(CAST(price AS DOUBLE)), SUM(price)
    FROM {days("bids")} GROUP BY auction, window_start, window_end""",
)
