"""Words of lines, counted by hour."""

import os

import penstock as ps

app = ps.App("words")
lines = app.stream(
    "lines", ps.files(os.environ["PEERS_INPUT"]), schema="line string, at timestamp", event_time="at",
    watermark=ps.bounded("5 seconds", idle=None), keep="none",
)  # fmt: skip
words = lines.explode("split(line, ' ') AS word")
app.view("result", words.group_by("word").window(ps.fixed("1 hour")).agg(n=ps.count()))
