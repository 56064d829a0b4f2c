"""Four operators and a view at half of their maximum rate: how long an event takes from Kafka until it is counted.

    python bench/pipeline.py [--quick]

Four processors with state by key stand before a view of counts, all in one commit. First they take a backlog of events
as fast as they can: the maximum rate. Then a process of its own sends half as many a second, and another one receives
the view's changes from Kafka and looks at its clock.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import SparkSession

sys.path.insert(0, str(Path(__file__).parent.parent))

import penstock as ps
from bench.latency import SCHEMA, Load, Passed, counted, through_kafka
from bench.side_by_side import Report
from penstock.app import App
from penstock.dev.broker import Cluster
from penstock.runtime.run import Run
from penstock.runtime.spark.session import spark_session

QUICK = "--quick" in sys.argv
BACKLOG, SECONDS, WARM = (200_000, 15.0, 10.0) if QUICK else (2_000_000, 60.0, 20.0)
OPERATORS, KEYS = 4, 100


def pipeline(name: str, servers: str, topics: tuple[str, str], start: str) -> App:
    app = ps.App(name)
    flow = app.stream("events", ps.kafka(topics[0], servers=servers, start=start), schema=SCHEMA)
    for number in range(OPERATORS):
        flow = app.process(f"passed_{number}", flow, Passed, by="k")
    app.sink(app.view("counts", counted(flow)), ps.to_kafka(topics[1], servers=servers, mode="update"), name="out")
    return app


class Started:
    """The pipeline, running while it is used as a context."""

    def __init__(self, app: App, folder: Path, spark: SparkSession) -> None:
        self._app, self._folder, self._spark = app, folder, spark
        self.run: Run

    def __enter__(self) -> None:
        self.run = self._app.start(self._folder, spark=self._spark)

    def __exit__(self, *_: object) -> None:
        self.run.stop()


def maximum_rate(servers: str, topics: tuple[str, str], folder: Path, spark: SparkSession) -> float:
    """Events a second of a backlog, over the commits of its second half."""
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 20})
    for number in range(BACKLOG):
        sent = time.time_ns() // 1000
        producer.produce(topics[0], value=f'{{"k": {number % KEYS}, "kind": "view", "sent": {sent}}}')
        if number % 10_000 == 0:
            producer.flush()
    producer.flush()
    started = Started(pipeline("backlog", servers, topics, "earliest"), folder, spark)
    with started:
        started.run.catch_up()
        commits = started.run.store.query(
            "SELECT rows, now FROM __commits WHERE kind = 'epoch' AND rows > 0 ORDER BY number"
        ).rows()
    before, half = 0, 0
    for place, (rows, _) in enumerate(commits):
        before += rows
        if before >= BACKLOG / 2:
            half = place
            break
    return sum(rows for rows, _ in commits[half + 1 :]) / ((commits[-1][1] - commits[half][1]) / 1e6)


def main() -> None:
    spark = spark_session("bench-pipeline", master="local[2]", kafka=True)
    with tempfile.TemporaryDirectory(prefix="penstock-pipeline-") as scratch, Cluster(Path(scratch) / "kafka") as kafka:
        root, admin = Path(scratch), AdminClient({"bootstrap.servers": kafka.servers})
        pairs = [(f"in-{number}", f"out-{number}") for number in range(2)]
        for future in admin.create_topics([NewTopic(topic, 1, 1) for pair in pairs for topic in pair]).values():
            future.result()
        highest = maximum_rate(kafka.servers, pairs[0], root / "backlog", spark)
        print(f"maximum rate: {highest:,.0f} events/s", flush=True)
        load, folder = Load(highest / 2, SECONDS, WARM), root / "half"
        way = Started(pipeline("half", kafka.servers, pairs[1], "latest"), folder, spark)
        result = through_kafka(way, kafka.servers, pairs[1], folder, load, "counts", [])
    spark.stop()
    report = Report("pipeline", "python bench/pipeline.py" + (" --quick" if QUICK else ""))
    report.table(
        f"{OPERATORS} processors and a view, {KEYS} keys, from Kafka to Kafka, exactly once",
        ["", "value"],
        [
            ["maximum rate", f"{highest:,.0f} events/s"],
            ["sent", f"{load.rate:,.0f} events/s for {SECONDS:g} s"],
            ["shown after, median", f"{result.taken.median * 1000:,.0f} ms"],
            ["shown after, 95 of 100", f"{result.high_95 * 1000:,.0f} ms"],
            ["shown after, 99 of 100", f"{result.taken.high * 1000:,.0f} ms"],
        ],
    )
    if not QUICK:
        report.write()


if __name__ == "__main__":
    main()
