"""How long a message takes from Kafka to Kafka, filtered and enriched: the real-time lane beside micro-batches.

    python bench/latency.py [--quick]

10 000 events a second are sent by a process of their own, each with the time when it was sent; another one reads what
comes out, and looks at its clock. All is on one machine, which also runs the broker.
"""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

sys.path.insert(0, str(Path(__file__).parent.parent))

import penstock as ps
from bench.side_by_side import Report
from penstock.dev.broker import Cluster
from penstock.runtime.spark.session import spark_session

RATE = 10_000
WARM, SECONDS = (10, 20) if "--quick" in sys.argv else (20, 60)
SCHEMA = "k int, kind string, sent bigint"


def send(servers: str, topic: str) -> None:
    """Sends events at a steady rate, for as long as it lives: a tenth of a second's at a time, spread within it."""
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 1})
    begin = time.time()
    number = 0
    while True:
        due = int((time.time() - begin) * RATE)
        while number < due:
            kind = "view" if number % 3 == 0 else "click"
            text = f'{{"k": {number % 100}, "kind": "{kind}", "sent": {time.time_ns() // 1000}}}'
            producer.produce(topic, value=text)
            number += 1
        producer.poll(0)
        time.sleep(0.001)


def receive(servers: str, topic: str) -> None:
    """Reads what comes from now on, and prints how long each message took, in microseconds."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "latency", "isolation.level": "read_committed"})
    _, high = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=30)
    consumer.assign([TopicPartition(topic, 0, high)])
    taken: list[int] = []
    end = time.time() + SECONDS
    while time.time() < end:
        for message in consumer.consume(1000, timeout=0.001):
            if message.error() is None:
                taken.append(time.time_ns() // 1000 - json.loads(message.value())["sent"])
    print(json.dumps(taken))


def enriched(spark: SparkSession) -> Callable[[DataFrame], DataFrame]:
    """Views only, each with the campaign of its ad, from a small table."""
    names = spark.createDataFrame([(k, f"campaign {k % 10}") for k in range(100)], "k int, campaign string")
    return lambda df: df.filter("kind = 'view'").join(F.broadcast(names), "k").select("k", "campaign", "sent")


@contextmanager
def by_penstock(spark: SparkSession, servers: str, source: str, target: str, folder: Path, mode: str) -> Iterator[None]:
    app = ps.App("latency")
    log = ps.kafka(source, servers=servers, start="latest")
    events = app.stream("events", log, schema=SCHEMA, keep="none")
    app.sink(events.transform(enriched(spark)), ps.to_kafka(target, servers=servers, mode=mode), name="out")  # type: ignore[arg-type]
    run = app.run(folder, spark=spark).start()
    try:
        yield
    finally:
        run.stop()


@contextmanager
def by_hand(spark: SparkSession, servers: str, source: str, target: str, folder: Path) -> Iterator[None]:
    """The same in plain Structured Streaming: micro-batches as fast as they go, at least once."""
    read = spark.readStream.format("kafka").option("kafka.bootstrap.servers", servers).option("subscribe", source)
    rows = enriched(spark)(
        read.load().select(F.from_json(F.col("value").cast("string"), SCHEMA).alias("e")).select("e.*")
    )
    query = (
        rows.select(F.to_json(F.struct("*")).alias("value")).writeStream.format("kafka")
        .option("kafka.bootstrap.servers", servers).option("topic", target)
        .option("checkpointLocation", str(folder)).start()
    )  # fmt: skip
    try:
        yield
    finally:
        query.stop()


def measured(servers: str, source: str, target: str) -> list[int]:
    sender = subprocess.Popen([sys.executable, __file__, "send", servers, source])
    try:
        time.sleep(WARM)
        command = [sys.executable, __file__, "receive", servers, target, *sys.argv[1:]]
        return list(json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout))
    finally:
        sender.kill()


def main() -> None:
    report = Report("latency", "python bench/latency.py")
    folder = Path(tempfile.mkdtemp(prefix="penstock-latency-"))
    rows = []
    with Cluster(folder / "kafka") as kafka:
        spark = spark_session("latency", master="local[4]", kafka=True)
        admin = AdminClient({"bootstrap.servers": kafka.servers})
        ways = {
            'real-time lane (`mode="realtime"`), at least once': lambda s, t, d: by_penstock(
                spark, kafka.servers, s, t, d, "realtime"
            ),
            "hand-written micro-batches, at least once": lambda s, t, d: by_hand(spark, kafka.servers, s, t, d),
            "epochs and the outbox, exactly once": lambda s, t, d: by_penstock(spark, kafka.servers, s, t, d, "panes"),
        }
        for number, (name, way) in enumerate(ways.items()):
            source, target = f"in-{number}", f"out-{number}"
            for made in admin.create_topics([NewTopic(source, 1, 1), NewTopic(target, 1, 1)]).values():
                made.result()
            with way(source, target, folder / str(number)):
                taken = sorted(measured(kafka.servers, source, target))
            share = len(taken) / (SECONDS * RATE / 3)
            cut = statistics.quantiles(taken, n=100)
            rows.append(
                [
                    name,
                    f"{cut[49] / 1000:,.0f} ms",
                    f"{cut[98] / 1000:,.0f} ms",
                    f"{taken[-1] / 1000:,.0f} ms",
                    f"{share:.0%}",
                ]
            )
        spark.stop()
    head = ["way", "median", "99th percentile", "longest", "of what was sent"]
    report.table(f"Kafka to Kafka, filter and enrich, {RATE:,} events/s for {SECONDS} s, one partition", head, rows)
    report.write()
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["send"]:
        send(*sys.argv[2:4])
    elif sys.argv[1:2] == ["receive"]:
        receive(*sys.argv[2:4])
    else:
        main()
