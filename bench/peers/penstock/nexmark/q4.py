"""What auctions fetch on average, by category and day."""

from nexmark.events import app
from nexmark.winning import winning

import penstock as ps

by_category = app.view("winning", winning()).changes().group_by("category").window(ps.window_of())
app.view("q4", by_category.agg(auctions=ps.count(), mean=ps.avg("price")))
