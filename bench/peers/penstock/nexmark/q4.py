"""What auctions fetch on average, by category and day, which each commit may change."""

from nexmark.events import app
from nexmark.winning import winning

import penstock as ps

each = app.view("winning", winning().trigger(ps.on_time(early=ps.each())))
by_category = each.changes().group_by("category").window(ps.window_of())
app.view("q4", by_category.agg(auctions=ps.count(), mean=ps.avg("price")))
