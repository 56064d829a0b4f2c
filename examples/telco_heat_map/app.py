"""Where premium users have dropped calls: a stream of calls, joined with a table far larger than an epoch.

`penstock run examples/telco_heat_map/app.py` keeps the view; `python examples/telco_heat_map/draw.py` draws it.
`python examples/telco_heat_map/make.py` makes up the subscribers and the calls that both need.
"""

from __future__ import annotations

from pathlib import Path

import penstock as ps

HERE = Path(__file__).parent

app = ps.App("telco")
calls = app.stream(
    "calls",
    ps.files(HERE / "data" / "calls"),
    schema="subscriber bigint, x int, y int, dropped boolean, at timestamp",
    event_time="at",
    watermark=ps.bounded("30 seconds"),
    max_ahead=None,
)
subscribers = app.table(
    "subscribers",
    ps.files(HERE / "data" / "subscribers", format="parquet"),
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
