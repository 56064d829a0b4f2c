"""Clicks with the impressions of the minute before them, counted by place in windows of ten seconds."""

import os

import penstock as ps

app = ps.App("join")
events = app.stream(
    "events", ps.files(os.environ["PEERS_INPUT"]), schema="kind string, ad bigint, place int, at timestamp",
    event_time="at", watermark=ps.bounded("5 seconds", idle=None), keep="none",
)  # fmt: skip
clicked = events.where("kind = 'click'").select("ad", "at")
shown = events.where("kind = 'shown'").select("place", shown="ad", seen="at")
matched = app.join(
    "matched", clicked, shown, on="ad = shown", within=("-1 minute", "0 seconds"), event_time="at", keep="none"
)
app.view("result", matched.group_by("place").window(ps.fixed("10 seconds")).agg(n=ps.count()))
