"""The low latency lane: what it sends, how it goes on, and what it refuses with the reason."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.errors import DefinitionError, PenstockError
from penstock.runtime.run import Run
from tests.kafka.support import Kafka, at

SCHEMA = "k string, v int, price decimal(10,2), at timestamp, tags array<string>"


def lane_app(
    kafka: Kafka, source: str, target: str, steps: Callable[[ps.Stream], Any] = lambda s: s, name: str = "fast",
    **options: Any,
) -> ps.App:  # fmt: skip
    app = ps.App("lane")
    events = app.stream(
        "events", ps.kafka(source, servers=kafka.servers), schema=SCHEMA, event_time="at",
        watermark=ps.bounded("0 seconds"), keep="none",
    )  # fmt: skip
    app.view("counts", events.group_by("k").agg(n=ps.count()))
    app.sink(steps(events), ps.to_kafka(target, servers=kafka.servers, mode="realtime", **options), name=name)
    return app


def event(number: int, **more: Any) -> dict[str, Any]:
    return {"k": "ab"[number % 2], "v": number, "price": "1.50", "at": at(number / 2), "tags": ["x"], **more}


def wait_for(kafka: Kafka, topic: str, count: int, run: Run) -> list[dict[str, Any]]:
    """So many messages of a topic, in the order of their numbers."""
    found: list[Any] = []
    for _ in range(600):
        run.lanes.check()
        found = kafka.read(topic)
        if len(found) >= count:
            break
        time.sleep(0.1)
    assert len(found) == count
    return sorted((json.loads(message.value()) for message in found), key=lambda row: str(row.get("v", "")).zfill(9))


def test_rows_come_as_by_epochs_and_without_malformed_ones(spark, kafka, topic, state):
    source, fast, slow = topic(), topic(), topic()
    app = lane_app(
        kafka, source, fast, lambda s: s.where("v % 3 <> 1").select("k", "v", "price * 2 AS double", "at", "tags")
    )
    app.sink(
        app.streams["events"].where("v % 3 <> 1").select("k", "v", "price * 2 AS double", "at", "tags"),
        ps.to_kafka(slow, servers=kafka.servers), name="slow",
    )  # fmt: skip
    run = app.start(state, spark=spark)
    try:
        kafka.put(source, *(event(n) for n in range(12)), "{not json", event(12, at=None), event(15, tags=None))
        fast_rows = wait_for(kafka, fast, 9, run)
        run.catch_up()
        run.delivery.drain()
        slow_rows = sorted((json.loads(message.value()) for message in kafka.read(slow)), key=lambda row: row["v"])
        assert fast_rows == slow_rows
        assert fast_rows[1] == {"k": "a", "v": 2, "double": "3.00", "at": at(1), "tags": ["x"]}
        assert run.store.counters()["events.dead"] == 2  # the epochs beside the lane keep them
    finally:
        run.stop()


def test_a_lane_goes_on_after_a_stop(spark, kafka, topic, state):
    source, fast = topic(), topic()
    run = lane_app(kafka, source, fast).start(state, spark=spark)
    kafka.put(source, *(event(n) for n in range(5)))
    wait_for(kafka, fast, 5, run)
    run.stop()
    kafka.put(source, *(event(n) for n in range(5, 9)))
    run = lane_app(kafka, source, fast).start(state, spark=spark)
    try:
        seen = set()
        for _ in range(600):
            seen = {json.loads(message.value())["v"] for message in kafka.read(fast)}
            if seen == set(range(9)):
                break
            time.sleep(0.1)
        assert seen == set(range(9))  # those since the last checkpoint may be there twice
    finally:
        run.stop()


def test_a_renamed_lane_goes_on_behind_its_checkpoint(spark, kafka, topic, state):
    source, fast = topic(), topic()
    run = lane_app(kafka, source, fast, checkpoint_every="5 seconds").start(state, spark=spark)
    kafka.put(source, *(event(n) for n in range(5)))
    wait_for(kafka, fast, 5, run)
    commits = state / "realtime" / "fast" / "commits"
    before = len(list(commits.glob("[0-9]*")))
    while len(list(commits.glob("[0-9]*"))) == before:
        run.lanes.check()
        time.sleep(0.1)
    run.store.records.rename_sink("fast", "quick")
    run.stop()
    kafka.put(source, *(event(n) for n in range(5, 9)))
    run = lane_app(kafka, source, fast, name="quick", checkpoint_every="5 seconds").start(state, spark=spark)
    try:
        assert [row["v"] for row in wait_for(kafka, fast, 9, run)] == list(range(9))
        run.lanes.drop("quick")
        assert not commits.exists()
    finally:
        run.stop()


def test_dataframe_code_may_join_a_small_table(spark, kafka, topic, state):
    from pyspark.sql import functions as f

    names = spark.createDataFrame([("a", "anna")], "k string, name string")
    source, fast = topic(), topic()
    app = lane_app(
        kafka, source, fast, lambda s: s.transform(lambda df: df.join(f.broadcast(names), "k").select("v", "name"))
    )
    run = app.start(state, spark=spark)
    try:
        kafka.put(source, *(event(n) for n in range(4)))
        assert wait_for(kafka, fast, 2, run) == [{"v": 0, "name": "anna"}, {"v": 2, "name": "anna"}]
    finally:
        run.stop()


def test_a_lane_comes_and_goes_while_the_app_runs(spark, kafka, topic, state):
    source, first, second = topic(), topic(), topic()
    app = lane_app(kafka, source, first)
    given = app.sinks.pop("fast")
    run = app.start(state, spark=spark)
    try:
        run.add_sink("fast", *given)
        kafka.put(source, event(0))
        wait_for(kafka, first, 1, run)
        run.drop_sink("fast")
        run.add_sink("fast", given[0], given[1], ps.to_kafka(second, servers=kafka.servers, mode="realtime"))
        wait_for(kafka, second, 1, run)
        assert len(kafka.read(first)) == 1
    finally:
        run.stop()


def test_python_functions_state_and_too_many_partitions_are_refused(spark, kafka, topic, tmp_path):
    from pyspark.sql import functions as f

    source, target = topic(), topic()
    slow = f.udf(lambda text: text, "string")
    codes = {
        "ArrowEvalPythonExec is not in the operator allowlist": lambda df: df.select(slow("k").alias("k")),
        "keeps state: Deduplicate": lambda df: df.dropDuplicates(["k"]),
        "keeps state: Aggregate": lambda df: df.groupBy("k").count(),
    }
    for number, (reason, code) in enumerate(codes.items()):
        app = lane_app(kafka, source, target, lambda s, code=code: s.transform(code))
        with pytest.raises(DefinitionError, match=f"real-time mode cannot run this: .*{reason}"):
            app.start(tmp_path / str(number), spark=spark)
    with pytest.raises(PenstockError, match="keep 4 tasks busy, one for each partition, and Spark runs 2 at a time"):
        lane_app(kafka, topic(4), target).start(tmp_path / "other", spark=spark)


@pytest.mark.parametrize(
    ("log", "options", "reason"),
    [
        (ps.files("."), {}, "comes from ps.files"),
        (ps.kafka("t"), {"id": "k"}, "has an id"),
        (ps.kafka("t"), {"sign": "v"}, "is signed"),
    ],
)
def test_what_real_time_mode_cannot_run_is_refused_when_it_is_defined(log: Any, options: dict[str, str], reason: str):
    app = ps.App("lane")
    events = app.stream("events", log, schema="k string, v int", **options)
    with pytest.raises(DefinitionError, match=f"real-time mode cannot run this: .*{reason}"):
        app.sink(events, ps.to_kafka("out", mode="realtime"))


def test_views_and_other_sinks_have_no_lane(tmp_path: Path):
    app = ps.App("lane")
    events = app.stream("events", ps.kafka("t"), schema="k string, v int")
    view = app.view("v", events.group_by("k").agg(n=ps.count()))
    with pytest.raises(DefinitionError, match="a view has state, which is kept by epochs"):
        app.sink(view, ps.to_kafka("out", mode="realtime"))
    with pytest.raises(DefinitionError, match="not a Kafka topic"):
        app.sink(events, ps.to_jsonl(tmp_path, mode="realtime"))
