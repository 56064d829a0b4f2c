"""Which tags do people post about right now? The last minute, every ten seconds."""

import penstock as ps
from penstock.dev.demos.trending import posts as made_up

app = ps.App("trending")

posts = app.stream(
    "posts",
    ps.generator(made_up, rate=2000, seed=1, disorder="3 seconds", late=0.002, lateness="75 seconds"),
    schema="id bigint, user bigint, tag string, at timestamp",
    event_time="at",
    watermark=ps.bounded("4 seconds"),
)

app.view(
    "trending",
    posts.group_by("tag")
    .window(ps.sliding("1 minute", every="10 seconds"))
    .agg(posts=ps.count(), people=ps.approx_distinct("user"))
    .trigger(ps.on_time(early=ps.every("3 seconds")))
    .retracting()
    .allow_late("20 seconds"),
)
app.view("totals", posts.group_by().agg(posts=ps.count(), people=ps.approx_distinct("user")))
