"""Counts and sums by key in windows of ten seconds."""

import os

import penstock as ps

app = ps.App("keys")
events = app.stream(
    "events", ps.files(os.environ["PEERS_INPUT"]), schema="key string, v bigint, at timestamp", event_time="at",
    watermark=ps.bounded("5 seconds", idle=None), keep="none",
)  # fmt: skip
app.view("result", events.group_by("key").window(ps.fixed("10 seconds")).agg(n=ps.count(), total=ps.sum("v")))
