"""Savepoints of an app on Kafka: restored elsewhere it goes on, also where the topic has more partitions by then."""

from __future__ import annotations

from pathlib import Path

from confluent_kafka.admin import NewPartitions

import penstock as ps
from penstock.history.savepoints import restore
from tests.kafka.support import asked, at, counting, running

COUNTS = "SELECT k, window_start, n FROM counts ORDER BY 1, 2"


def test_a_restored_app_goes_on_when_the_topic_has_grown(kafka, topic, state, spark, tmp_path: Path):
    name = topic(2)
    log = ps.kafka(name, servers=kafka.servers, events_per_epoch=40)
    make = {"watermark": ps.bounded("1 day", idle="1 minute")}
    app, _ = counting(log, **make)

    def put(k: str, partition: int) -> None:
        kafka.put(name, *[{"k": k, "v": n, "at": at(n % 30)} for n in range(50)], partition=partition)

    put("a", 0)
    put("a", 1)
    with running(app, state, spark) as run:
        early = run.savepoint("early")
        put("b", 0)
        put("b", 1)
        run.catch_up()
        late = run.savepoint("late")
        kafka.admin.create_partitions([NewPartitions(name, 4)])[name].result()
    for partition in range(4):
        put("c", partition)
    with running(app, state, spark) as run:  # Spark looks for partitions when it starts, and now and then
        whole = asked(run, COUNTS)
        assert dict(asked(run, "SELECT k, sum(n) FROM counts GROUP BY k")) == {"a": 100, "b": 100, "c": 200}
    for point in (early, late):
        restore(point, tmp_path / point.name)
        again, _ = counting(log, **make)
        with running(again, tmp_path / point.name, spark) as run:
            assert asked(run, COUNTS) == whole, point.name
            assert asked(run, "SELECT count(*) FROM __refused") == [(0,)]
