"""Where premium users have dropped calls: a stream of calls, joined with a table far larger than an epoch.

The folders `calls` and `subscribers` of the working directory have both; make.py makes them up.
"""

from __future__ import annotations

import penstock as ps

app = ps.App("telco")
calls = app.stream(
    "calls",
    ps.files("calls"),
    schema="subscriber bigint, x int, y int, dropped boolean, at timestamp",
    event_time="at",
    watermark=ps.bounded("30 seconds"),
    max_ahead=None,
)
subscribers = app.table(
    "subscribers",
    ps.files("subscribers", format="parquet"),
    schema="id bigint, tier string, since timestamp",
    key="id",
    valid_from="since",
    reload="on change",
)
premium = calls.join(subscribers, on="subscriber = id").where("tier = 'premium'")
app.view(
    "heat_map",
    premium.group_by("x", "y").window(ps.fixed("5 minutes")).agg(calls=ps.count(), dropped=ps.count(where="dropped")),
)
