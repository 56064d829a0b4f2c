"""What auctions fetch on average, by category and day."""

from nexmark.bands import START
from nexmark.events import answer
from nexmark.winning import WINNING

answer(
    "`start` STRING, category BIGINT, auctions BIGINT, mean DOUBLE",
    f"""SELECT {START}, category, COUNT(*), AVG(CAST(price AS DOUBLE))
    FROM {WINNING} GROUP BY category, window_start, window_end""",
)
