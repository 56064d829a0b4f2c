"""How many events a key had and their sum, when it is quiet for a minute."""

import os
from datetime import timedelta

import penstock as ps


class Quiet(ps.Processor):
    output = "key string, n bigint, total bigint"
    n = ps.value("bigint", default=0)
    total = ps.value("bigint", default=0)

    def on_event(self, key, event, time):
        self.n += 1
        self.total += event.v
        self.set_timer(time + timedelta(minutes=1), name="quiet")

    def on_timer(self, key, timer):
        yield key, self.n, self.total
        self.clear()


app = ps.App("quiet")
events = app.stream(
    "events", ps.files(os.environ["PEERS_INPUT"]), schema="key string, v bigint, at timestamp", event_time="at",
    watermark=ps.bounded("5 seconds", idle=None), keep="none",
)  # fmt: skip
quiet = app.process("quiet", events.where("key <> 'end'"), Quiet, by="key", keep="none")
app.sink(quiet, ps.to_jsonl(os.environ["PEERS_OUTPUT"] + "/answer", mode="append"), name="answer")
