"""Small epochs of Kafka are read on the driver, without a Spark job, and are the same as those that Spark reads."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Producer

import penstock as ps
from penstock.model.types import Schema
from penstock.runtime.epoch.small import SMALL_EPOCH, SMALL_EPOCH_BYTES
from penstock.runtime.spark.internals import cloned_session
from penstock.sources.kafka.direct import DirectReader
from tests.kafka.support import DEAD, Clock, Kafka, asked, at, counting, running

MANY = 1 << 30
EVERYTHING = {
    "who": "key", "raw_key": "key", "topic": "topic", "part": "partition", "place": "offset", "arrived": "timestamp",
    "heads": "headers", "trace": "header:trace", "raw_trace": "header:trace",
}  # fmt: skip
PARTS = (
    "v int, who string, raw_key binary, topic string, part int, place bigint, arrived timestamp, heads string, "
    "trace string, raw_trace binary"
)


def ends(kafka: Kafka, *topics: str) -> dict[str, dict[str, int]]:
    """Where topics end for those who read what is committed."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": kafka.servers, "group.id": "ends", "isolation.level": "read_committed"})
    known = consumer.list_topics(timeout=30).topics
    found = {
        topic: {
            str(n): consumer.get_watermark_offsets(TopicPartition(topic, n), timeout=30)[1]
            for n in known[topic].partitions
        }
        for topic in topics
    }
    consumer.close()
    return found


def from_start(offsets: dict[str, dict[str, int]]) -> str:
    return json.dumps({topic: dict.fromkeys(parts, 0) for topic, parts in offsets.items()})


def by_spark(spark: Any, log: Any, schema: Schema, start: str, end: str) -> pa.Table:
    rows = log.read_span(spark, schema, schema.names, start, end)
    return rows.orderBy("__partition", "__offset").toArrow()


def assert_same(table: pa.Table, expected: pa.Table) -> None:
    ordered = table.select(expected.column_names).sort_by([("__partition", "ascending"), ("__offset", "ascending")])
    assert ordered.to_pylist() == expected.to_pylist()
    assert [pa.types.is_binary(kind) for kind in ordered.schema.types] == [
        pa.types.is_binary(kind) for kind in expected.schema.types
    ]


def edge_messages(kafka: Kafka, topic: str) -> None:
    """Messages of every kind in two partitions, transactions that end well and that do not among them."""
    kafka.put(topic, {"v": 1}, "no json", None, b"\xff\xfe", "", '{"v": "ä€😀\\u0000"}', key="ä€😀")
    kafka.put(topic, {"v": 2}, None, key="")
    kafka.put(topic, {"v": 3}, headers=[("trace", b"a"), ("other", None), ("trace", b'b"\\/'), ("", b"")])
    kafka.put(topic, {"v": 4}, partition=1, timestamp=1_700_000_000_123, headers=[("trace", None)])
    for end in ("commit", "abort"):
        producer = Producer({"bootstrap.servers": kafka.servers, "transactional.id": f"{topic}-{end}"})
        producer.init_transactions(30)
        producer.begin_transaction()
        for partition in (0, 1):
            producer.produce(topic, value=json.dumps({"v": 5, "end": end}), partition=partition)
        producer.flush()
        producer.commit_transaction(30) if end == "commit" else producer.abort_transaction(30)


def test_the_driver_reads_the_rows_that_spark_reads_and_goes_on_where_it_was(kafka, topic, spark):
    name, other = topic(2), topic()
    edge_messages(kafka, name)
    kafka.put(other, *({"v": n} for n in range(10)))
    offsets = ends(kafka, name, other)
    middle = json.dumps({name: {"0": 4, "1": 1}, other: {"0": 10}})
    start, end = from_start(offsets), json.dumps(offsets)
    schema = Schema.parse(PARTS)
    log = ps.kafka([name, other], servers=kafka.servers, metadata=EVERYTHING)
    reader = DirectReader(log)
    first, second = reader.read(start, middle, schema, MANY), reader.read(middle, end, schema, MANY)
    assert first is not None
    assert second is not None
    assert_same(first, by_spark(spark, log, schema, start, middle))
    assert_same(second, by_spark(spark, log, schema, middle, end))
    again = reader.read(start, middle, schema, MANY)  # an epoch that comes again
    assert again == first
    reader.close()
    assert reader.read(middle, end, schema, MANY) is None

    uncommitted = ps.kafka(name, servers=kafka.servers, options={"kafka.isolation.level": "read_uncommitted"})
    start, end, few = from_start({name: offsets[name]}), json.dumps({name: offsets[name]}), Schema.parse("v int")
    reader = DirectReader(uncommitted)
    rows = reader.read(start, end, few, MANY)
    assert rows is not None
    assert_same(rows, by_spark(spark, uncommitted, few, start, end))
    reader.close()


def test_spark_reads_what_the_driver_cannot_be_sure_of(kafka, topic, spark):
    name = topic(2)
    kafka.put(name, {"v": 1}, {"v": 2}, key=b"\xff")
    kafka.put(name, *({"v": n, "long": "x" * 2000} for n in range(40)), partition=1)
    schema = Schema.parse("v int")
    start, end = json.dumps({name: {"0": 0, "1": 0}}), json.dumps({name: {"0": 2, "1": 40}})
    log = ps.kafka(name, servers=kafka.servers)
    reader = DirectReader(log)
    assert reader.read(None, end, schema, MANY) is None  # the first epoch: only Spark knows where it begins
    assert reader.read(json.dumps({name: {"0": 0}}), end, schema, MANY) is None  # a new partition
    assert reader.read(start, json.dumps({name: {"0": 2}}), schema, MANY) is None  # one that is gone
    assert reader.read(end, start, schema, MANY) is None  # a topic that was made anew
    assert reader.read(start, start, schema, MANY) is None
    assert reader.read(start, end, schema, 0) is None  # it is turned off
    assert reader.read(start, end, schema, 42 * 100) is None  # more messages than that
    assert reader.read(start, end, schema, 42 * 300) is None  # more bytes than they were taken for
    assert reader.read(start, end, schema, MANY).num_rows == 42
    reader.close()
    for odd in (
        ps.kafka(name, servers=kafka.servers, metadata={"who": "key"}),  # a key that is not text
        ps.kafka(name, servers=kafka.servers, format="csv"),  # Spark parses it
        ps.kafka(name, servers=kafka.servers, options={"kafka.fetch.max.wait.ms": "10"}),  # only Java knows that
        ps.kafka(name, servers=kafka.servers, options={"kafka.ssl.truststore.location": "ca.jks"}),
    ):
        reader = DirectReader(odd)
        assert reader.read(start, end, Schema.parse("v int, who string"), MANY) is None
        reader.close()


def test_offsets_that_are_gone_are_left_to_spark(kafka, topic):
    from confluent_kafka import TopicPartition

    name = topic()
    kafka.put(name, *({"v": n} for n in range(10)))
    kafka.admin.delete_records([TopicPartition(name, 0, 5)])[TopicPartition(name, 0)].result()
    reader = DirectReader(ps.kafka(name, servers=kafka.servers))
    schema, end = Schema.parse("v int"), json.dumps({name: {"0": 10}})
    assert reader.read(json.dumps({name: {"0": 0}}), end, schema, MANY) is None
    reader.close()


def read_in_parts(spark: Any, kafka: Kafka, name: str, state: Path, most: int, id: str | None) -> tuple[int, Any]:
    """Runs an app over what a topic gets in three parts: the jobs of Spark after the first epoch, and the results."""
    session = cloned_session(spark)
    session.conf.set(SMALL_EPOCH, str(most))
    app, stream = counting(
        ps.kafka(name, servers=kafka.servers, metadata={"who": "key"}), "k string, v int, at timestamp, who string",
        id=id, watermark=ps.bounded("1 second", idle=None),
    )  # fmt: skip
    app.view("by_key", stream.group_by("who").agg(n=ps.count(), v=ps.sum("v")))
    parts: tuple[tuple[Any, ...], ...] = (
        ({"k": "a", "v": 1, "at": at(1)},),
        ({"k": "a", "v": 1, "at": at(2)}, "no json", None, {"k": "b", "v": 2, "at": at(40)}),
        ({"k": "a", "v": 3, "at": at(3)}, {"k": "c", "v": 4, "at": at(41)}, {"k": "c", "v": 5, "at": "never"}),
    )
    scheduler: Any = session.sparkContext._jsc.sc().dagScheduler()
    kafka.put(name, *parts[0], key="x")
    with running(app, state, session) as run:
        before = scheduler.numTotalJobs()
        for number, part in enumerate(parts[1:]):
            kafka.put(name, *part, partition=number, key="y")
            run.catch_up()
        jobs = scheduler.numTotalJobs() - before
        views = [asked(run, f"SELECT * FROM {view} ORDER BY 1, 2") for view in ("counts", "by_key")]
        rejected = asked(run, "SELECT kind, reason, row, partition, offset FROM __refused ORDER BY 1, 2, 4, 5")
        kept = run.spark.read.parquet(*(str(path) for path in state.rglob("*.parquet"))).count()
        times = asked(run, "SELECT epoch, offsets, rows FROM __commits WHERE kind = 'epoch' ORDER BY number")
    return jobs, (views, rejected, kept, [(epoch, rows) for epoch, _, rows in times])


@pytest.mark.parametrize("id", [None, "v"])
def test_small_epochs_need_no_job_and_come_to_the_same(kafka, topic, spark, state, id):
    jobs, results = read_in_parts(spark, kafka, topic(2), state / "driver", SMALL_EPOCH_BYTES, id)
    jobs_of_tasks, same = read_in_parts(spark, kafka, topic(2), state / "tasks", 0, id)
    assert results == same
    assert jobs == 0
    assert jobs_of_tasks > 0


def test_a_process_killed_before_the_commit_reads_the_epoch_again_and_counts_it_once(kafka, topic, spark, state):
    name = topic(2)
    kafka.put(name, {"k": "a", "v": 1, "at": at(1)})
    command = [sys.executable, "-m", "tests.kafka.direct_app", str(state), kafka.servers, name]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as app:
        assert app.stdout is not None
        assert app.stdout.readline().strip() == "first epoch"
        kafka.put(name, {"k": "a", "v": 2, "at": at(2)}, "no json")
        kafka.put(name, {"k": "b", "v": 3, "at": at(3)}, partition=1)
        assert app.stdout.readline().strip() == "3 messages read"
    assert app.returncode == -signal.SIGKILL
    session = cloned_session(spark)
    session.conf.set(SMALL_EPOCH, str(SMALL_EPOCH_BYTES))
    counts, _ = counting(ps.kafka(name, servers=kafka.servers))
    with running(counts, state, session, Clock()) as run:
        assert asked(run, "SELECT k, n FROM counts ORDER BY k") == [("a", 2), ("b", 1)]
        assert [row for _, row, *_ in asked(run, DEAD)] == ["no json"]
