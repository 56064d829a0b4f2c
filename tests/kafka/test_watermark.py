"""Watermarks follow Kafka's real partitions: the slowest one counts, and one that is silent does not, after a while."""

from __future__ import annotations

import penstock as ps
from tests.kafka.support import Clock, asked, at, counting, running


def test_the_slowest_partition_counts_until_it_is_idle_also_while_others_are_busy(kafka, topic, state, spark):
    name = topic(3)
    log = ps.kafka(name, servers=kafka.servers)
    app, _ = counting(log, watermark=ps.bounded("0 seconds", idle="1 minute"))
    clock = Clock()

    def put(seconds: float, partition: int) -> None:
        kafka.put(name, {"k": "a", "v": 1, "at": at(seconds)}, partition=partition)

    put(25, 0)
    put(12, 1)
    with running(app, state, spark, clock) as run:

        def watermark() -> int | None:
            (shown,) = (tracker["watermark"] for tracker in run.store.trackers().values())
            start = ps.model.time.instant(at(0))
            return None if shown < start else (shown - start) // 1_000_000

        assert watermark() is None  # the third partition may still hold anything
        clock.move(30)
        put(45, 0)
        run.catch_up()
        assert watermark() is None
        clock.move(31)
        put(46, 0)  # the third has been silent for a minute, the second as well
        run.catch_up()
        assert watermark() == 46
        put(30, 1)
        put(31, 1)
        run.catch_up()
        late = asked(run, "SELECT partition, offset FROM __refused WHERE kind = 'late' ORDER BY offset")
        assert late == [(1, 1), (1, 2)]  # it spoke up after time had gone on without it
        assert watermark() == 46
    with running(app, state, spark, clock) as run:
        put(100, 0)
        run.catch_up()
        assert watermark() == 46  # after a restart nothing is idle
