"""Views rebuilt from a real topic: from its beginning, from an offset, from a time; with ids told apart again."""

from __future__ import annotations

import time

import penstock as ps
from penstock.history.batch.log_past import From
from penstock.history.batch.runs import replay
from tests.kafka.support import asked, at, running

SCHEMA = "k string, v int, at timestamp"


def test_a_view_is_rebuilt_from_a_topic_from_wherever_one_says(kafka, topic, state, spark):
    name = topic(2)
    app = ps.App("test")
    stream = app.stream(
        "events", ps.kafka(name, servers=kafka.servers), schema=SCHEMA, event_time="at", id="v", keep="none",
        watermark=ps.bounded("1 second", idle=None),
    )  # fmt: skip
    app.view("counts", stream.group_by("k").window(ps.fixed("10 seconds")).agg(n=ps.count(), v=ps.sum("v")))
    for number in range(3):
        kafka.put(name, {"k": "a", "v": number, "at": at(number)}, partition=0)
    kafka.put(name, {"k": "b", "v": 3, "at": at(40)}, {"k": "b", "v": 3, "at": at(40)}, partition=1)
    kafka.put(name, {"k": "b", "v": 4, "at": at(41)}, partition=0)
    with running(app, state, spark) as run:
        later = time.time_ns() // 1000
        time.sleep(0.01)
        kafka.put(name, {"k": "a", "v": 5, "at": at(5)}, partition=0)  # late
        kafka.put(name, {"k": "c", "v": 6, "at": at(42)}, partition=1)
        run.catch_up()
        sql = "SELECT k, n, v FROM counts ORDER BY k"
        assert asked(run, sql) == [("a", 3, 3), ("b", 2, 7), ("c", 1, 6)]
        list(replay(run, "events", From()))
        assert asked(run, sql) == [("a", 4, 8), ("b", 2, 7), ("c", 1, 6)]
        list(replay(run, "events", From(at=later)))
        assert asked(run, sql) == [("a", 1, 5), ("c", 1, 6)]
        list(replay(run, "events", From.parse("2"), "counts"))  # of each partition
        assert asked(run, sql) == [("a", 2, 7), ("b", 1, 4), ("c", 1, 6)]
        kafka.put(name, {"k": "c", "v": 7, "at": at(43)}, partition=1)
        run.catch_up()
        assert asked(run, sql)[2] == ("c", 2, 13)
