"""What auctions fetch on average, by category and day: a view of the winning bids, in the database."""

import sqlite3

from nexmark.winning import run_winning
from session import OUTPUT

run_winning()
store = sqlite3.connect(OUTPUT / "answer.db")
with store:
    store.execute("ALTER TABLE answer RENAME TO winning")
    store.execute(
        "CREATE VIEW answer AS SELECT start, category, count(*) AS auctions, avg(price) AS mean FROM winning "
        "GROUP BY start, category"
    )
store.close()
