"""Many queries on one stream: each counts a thousandth of the events in windows of ten seconds."""

import os

import penstock as ps

app = ps.App("queries")
events = app.stream(
    "events", ps.files(os.environ["PEERS_INPUT"]), schema="key string, v bigint, at timestamp", event_time="at",
    watermark=ps.bounded("5 seconds", idle=None), keep="none",
)  # fmt: skip
for number in range(int(os.environ["PEERS_QUERIES"])):
    windows = events.where(f"v = {number}").window(ps.fixed("10 seconds"))
    app.view(f"query{number}", windows.agg(n=ps.count(), last=ps.max("key")))
