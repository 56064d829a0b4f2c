"""From a Kafka topic into a view: the engine against hand-written Structured Streaming, on one broker in one run.

    python bench/kafka.py [--quick]

The job is that of `bench/engine.py`, Yahoo's events in JSON, and the hand-written way too: update mode, RocksDB state,
committed to SQLite by an upsert. Both read the same topic from its beginning, warm up first and then take turns. The
last line leaves the size of epochs to Penstock (`runtime/queries/admission.py`), and to Spark, which takes all in one.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

sys.path.insert(0, str(Path(__file__).parent.parent))

import penstock as ps
from bench.engine import ADS, ROCKSDB, START, Job, native_into_sqlite
from bench.side_by_side import Report
from penstock.dev.broker import Cluster
from penstock.model.time import show_instant
from penstock.runtime.spark.session import spark_session

QUICK = "--quick" in sys.argv
EVENTS, PARTITIONS, TURNS = (200_000, 4, 2) if QUICK else (2_000_000, 4, 2)
TOPIC = "ads"


class Ads(Job):
    """Views of ads by campaign, from a topic."""

    def __init__(self, servers: str, per_epoch: int | None) -> None:
        super().__init__("json", ADS, "substr(ad_id, 1, 3)", "event_type = 'view'", None)
        self.servers, self.per_epoch = servers, per_epoch

    def app_on_kafka(self) -> ps.App:
        return self.app_on(ps.kafka(TOPIC, servers=self.servers, events_per_epoch=self.per_epoch))

    def run_native(self, spark: SparkSession) -> tuple[float, int]:
        reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", self.servers)
        reader = reader.option("subscribe", TOPIC).option("startingOffsets", "earliest")
        if self.per_epoch is not None:
            reader = reader.option("maxOffsetsPerTrigger", self.per_epoch)
        parsed = reader.load().select(F.from_json(F.col("value").cast("string"), self.schema).alias("e"))
        return native_into_sqlite(self, parsed.select("e.*"))

    def run_engine(self, spark: SparkSession) -> tuple[float, int]:
        with tempfile.TemporaryDirectory() as work:
            begun = time.perf_counter()
            run = self.app_on_kafka().start(Path(work) / "state", spark=spark, tick=3600.0)
            run.catch_up()
            seconds = time.perf_counter() - begun
            counted = run.store.query("SELECT sum(n) FROM result").item()
            run.stop()
            return seconds, counted


def produce(servers: str) -> None:
    """Yahoo's events, in order of time, over all partitions."""
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS)])[TOPIC].result()
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 50, "batch.num.messages": 10_000})
    chance = np.random.default_rng(1)
    users, pages, ads, kinds, events = (chance.integers(0, high, EVENTS) for high in (100, 100, 1000, 3, 3))
    for n in range(EVENTS):
        if n % 10_000 == 0:
            second = show_instant(START + n * 100).removesuffix("Z")
            producer.flush()
        value = (
            f'{{"user_id": "user-{users[n]}", "page_id": "page-{pages[n]}", '
            f'"ad_id": "c{ads[n] // 10:02}-{ads[n] % 10}", '
            f'"ad_type": "{("banner", "modal", "mail")[kinds[n]]}", '
            f'"event_type": "{("view", "click", "purchase")[events[n]]}", "at": "{second}.{n % 10_000 * 100:06}Z", '
            f'"ip": "1.2.3.4"}}'
        )
        producer.produce(TOPIC, value, partition=n % PARTITIONS)
    producer.flush()


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as root, Cluster(root) as kafka:
        produce(kafka.servers)
        spark = spark_session(
            "penstock-bench", master="local[2]", kafka=True,
            options={"spark.sql.streaming.stateStore.providerClass": ROCKSDB},
        )  # fmt: skip
        lines = []
        for per_epoch in (EVENTS // 8, EVENTS // 2, None):
            job = Ads(kafka.servers, per_epoch)
            rates: dict[str, list[float]] = {"native": [], "engine": []}
            for turn in range(TURNS + 1):
                native, counted = job.run_native(spark)
                engine, same = job.run_engine(spark)
                assert counted == same, (counted, same)
                if turn:  # the first one warms up
                    rates["native"].append(EVENTS / native)
                    rates["engine"].append(EVENTS / engine)
            ratio = statistics.median(e / n for e, n in zip(rates["engine"], rates["native"], strict=True))
            cells = [f"{max(rates[way]) / 1000:,.0f} k/s" for way in ("native", "engine")]
            lines.append(["as they like" if per_epoch is None else f"{per_epoch:,}", *cells, f"{ratio:.2f}"])
        report = Report("kafka", "python bench/kafka.py")
        head = ["events an epoch", "hand-written", "Penstock", "Penstock, of hand-written"]
        report.table(f"{EVENTS:,} events in JSON from {PARTITIONS} partitions of Kafka into SQLite", head, lines)
        if not QUICK:
            report.write()


if __name__ == "__main__":
    main()
