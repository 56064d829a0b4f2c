"""An app with operators: a join of streams and a processor. Its directory is PENSTOCK_TEST_ROOT."""

from __future__ import annotations

import os
from pathlib import Path

import penstock as ps

ROOT = Path(os.environ["PENSTOCK_TEST_ROOT"])


class Numbers(ps.Processor):
    """Numbers the events of each key."""

    output = "k string, n bigint, at timestamp"
    n = ps.value("bigint", default=0)

    def on_event(self, key, event, time):
        self.n += 1
        yield key, self.n, time


app = ps.App("state")
events = app.stream(
    "events", ps.files(ROOT / "in", files_per_epoch=1), schema="id bigint, k string, at timestamp", event_time="at",
    watermark=ps.bounded("1 day", idle=None),
)  # fmt: skip
even = events.where("id % 2 = 0").select("id", "k", "at")
odd = events.where("id % 2 = 1").select("k", other="id", then="at")
pairs = app.join("pairs", even, odd, on="k", within=("-1 hour", "1 hour"), event_time="at")
app.view("by_pair", pairs.group_by("id", "other").agg(n=ps.count()))
numbers = app.process("numbers", events, Numbers, by="k", event_time="at")
app.view("by_number", numbers.group_by("k", "n").agg(times=ps.count()))
