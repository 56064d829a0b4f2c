"""The app whose store `make.py` has written with the version before. It runs with that version and with this one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import penstock as ps

#: Two events of each user; one that comes twice, one without a time.
FIRST = (
    "(1, 'ann', 10, TIMESTAMP '2024-05-01 12:00:01'), (2, 'bob', 20, TIMESTAMP '2024-05-01 12:00:02'), "
    "(3, 'ann', 30, TIMESTAMP '2024-05-01 12:00:12'), (1, 'ann', 10, TIMESTAMP '2024-05-01 12:00:01'), "
    "(4, 'bob', 40, NULL)"
)
#: The watermark passes the first windows; after the savepoint and with other tiers.
SECOND = "(5, 'bob', 50, TIMESTAMP '2024-05-01 12:01:00'), (6, 'eve', 60, TIMESTAMP '2024-05-01 12:01:05')"
#: One event is late for its window.
THIRD = "(7, 'ann', 70, TIMESTAMP '2024-05-01 12:00:03'), (8, 'eve', 80, TIMESTAMP '2024-05-01 12:01:06')"
BY_LENGTH = "CREATE CONTINUOUS VIEW by_length AS SELECT user, max(ms) AS longest FROM clicks GROUP BY user"


class Runs(ps.Processor):
    """Numbers the events of each user."""

    output = "user string, n bigint"
    n = ps.value("bigint", default=0)

    def on_event(self, key: str, event: Any, time: Any) -> None:
        self.n += 1
        self.emit(user=key, n=self.n)


def define(deliver: Callable[[list[Any]], Any], users: str = "users", runs: str = "runs") -> ps.App:
    """A view, one that joins a table, one over a processor's stream, and a sink."""
    app = ps.App("shop")
    clicks = app.stream(
        "clicks", ps.http("inbox"), schema="id int, user string, ms int, at timestamp", event_time="at", id="id",
        watermark=ps.bounded("10 seconds", idle=None), max_ahead=None,
    )  # fmt: skip
    tiers = app.table("users", ps.files(users), schema="name string, tier string", key="name")
    app.view("by_user", clicks.group_by("user").window(ps.fixed("10 seconds")).agg(n=ps.count(), ms=ps.sum("ms")))
    app.view("by_tier", clicks.join(tiers, on="user = name", how="left").group_by("tier").agg(n=ps.count()))
    app.view("by_run", app.process(runs, clicks, Runs, by="user").group_by("user").agg(n=ps.max("n")))
    app.sink("by_user", ps.to_function(deliver), name="out")
    return app
