"""How long an event takes, end to end: Kafka to Kafka, through a view to Kafka, to an answer of a lookup, and through
one to five operators; beside hand-written Structured Streaming, and beside the freshness that Penstock itself shows.

    python bench/latency.py [--rate 10000] [--seconds 60] [--warm 20] [--parts rows,views,lookups]
    python bench/latency.py --parts lane --seconds 240

Events are sent by a process of their own, each with the time when it was sent; another one receives what comes out, or
asks for it, and looks at its clock. All is on one machine, which also runs the broker. The freshness is what
`penstock status` shows: its median and 99th percentile over the same seconds.

The lane is measured over whole batches: rows wait at each checkpoint, every two minutes.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

sys.path.insert(0, str(Path(__file__).parent.parent))

import penstock as ps
from bench.side_by_side import Report, by_hand_state
from penstock.cli.figures import read_freshness
from penstock.dev.broker import Cluster
from penstock.runtime.spark.session import spark_session
from penstock.serve.server import Server
from penstock.serve.settings import Settings
from penstock.store import Reader
from penstock.store.freshness import Delay, delay

CLIENTS = Path(__file__).parent / "latency_clients.py"
SCHEMA = "k int, kind string, sent bigint"
PARTS = ("lane", "rows", "views", "lookups")
HEAD = ["way", "median", "99th percentile", "longest", "events measured", "freshness shown: median, 99th"]


@dataclass(frozen=True)
class Load:
    """How many events a second, and for how long before and while it is measured."""

    rate: float
    seconds: float
    warm: float


@dataclass(frozen=True)
class Measured:
    """What a consumer measured, in seconds, and what Penstock showed for the same time."""

    taken: Delay
    longest: float
    shown: Delay | None = None
    #: What 95 of 100 events stay below.
    high_95: float = math.inf

    def row(self, way: str) -> list[str]:
        shown = "" if self.shown is None else f"{_ms(self.shown.median)}, {_ms(self.shown.high)}"
        taken = self.taken
        return [way, _ms(taken.median), _ms(taken.high), _ms(self.longest), f"{taken.events:,}", shown]


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:,.0f} ms" if math.isfinite(seconds) else "longer than measured"


def measured(weighted: list[tuple[int, int]], shown: Delay | None = None) -> Measured:
    taken = delay([(micros / 1000, events) for micros, events in weighted])
    if taken is None:  # a way that is slower than the time for which it is measured
        return Measured(Delay(math.inf, math.inf, 0), math.inf, shown)
    every = np.repeat([micros for micros, _ in weighted], [events for _, events in weighted])
    return Measured(taken, float(every.max()) / 1e6, shown, float(np.quantile(every, 0.95)) / 1e6)


# Kafka to Kafka


def enriched(spark: SparkSession) -> Callable[[DataFrame], DataFrame]:
    """Views only, each with the campaign of its ad, from a small table."""
    names = spark.createDataFrame([(k, f"campaign {k % 10}") for k in range(100)], "k int, campaign string")
    return lambda df: df.filter("kind = 'view'").join(F.broadcast(names), "k").select("k", "campaign", "sent")


@contextmanager
def by_penstock(
    spark: SparkSession, servers: str, topics: tuple[str, str], folder: Path, what: str
) -> Iterator[ps.Run | None]:
    """Rows in real-time mode or by the outbox, or a view's panes."""
    app = ps.App("latency")
    log = ps.kafka(topics[0], servers=servers, start="latest")
    events = app.stream("events", log, schema=SCHEMA, keep="none")
    if what == "view":
        view = app.view("counts", counted(events))
        app.sink(view, ps.to_kafka(topics[1], servers=servers, mode="update"), name="out")
    else:
        flow: Any = events.transform(enriched(spark))
        app.sink(flow, ps.to_kafka(topics[1], servers=servers, mode=what), name="out")  # type: ignore[arg-type]
    run = app.start(folder, spark=spark)
    try:
        yield run
    finally:
        run.stop()


def counted(events: Any) -> ps.View:
    view: ps.View = events.group_by("k").agg(n=ps.count(), newest=ps.max("sent")).trigger(ps.each())
    return view


@contextmanager
def by_hand(
    spark: SparkSession, servers: str, topics: tuple[str, str], folder: Path, what: str
) -> Iterator[ps.Run | None]:
    """The same in plain Structured Streaming: micro-batches as fast as they go, at least once."""
    read = spark.readStream.format("kafka").option("kafka.bootstrap.servers", servers).option("subscribe", topics[0])
    rows = read.load().select(F.from_json(F.col("value").cast("string"), SCHEMA).alias("e")).select("e.*")
    if what == "view":
        rows = rows.groupBy("k").agg(F.count("*").alias("n"), F.max("sent").alias("newest"))
    else:
        rows = enriched(spark)(rows)
    query = (
        rows.select(F.to_json(F.struct("*")).alias("value")).writeStream.format("kafka").outputMode("update")
        .option("kafka.bootstrap.servers", servers).option("topic", topics[1])
        .option("checkpointLocation", str(folder)).start()
    )  # fmt: skip
    try:
        yield None
    finally:
        query.stop()


def through_kafka(
    way: AbstractContextManager[ps.Run | None],
    servers: str,
    topics: tuple[str, str],
    folder: Path,
    load: Load,
    receive: str,
    pauses: list[list[str]],
) -> Measured:
    """Runs a way, sends, and receives after some seconds. The freshness is that of the sink.

    `pauses` gets those between the batches of a lane.
    """
    with way as run:
        sender = _client("send", servers, topics[0], load.rate)
        try:
            _wait_for_messages(servers, topics[1])
            time.sleep(load.warm)
            since = time.time_ns() // 1000
            weighted = _finished(_client(receive, servers, topics[1], load.seconds))
            shown = read_freshness(Reader(folder), since).sinks.get("out") if (folder / "store.db").exists() else None
            if run is not None and "out" in run.lanes:
                pauses += batches_of(run)
        finally:
            sender.kill()
            sender.wait()
    return measured(weighted, shown)


def _wait_for_messages(servers: str, topic: str, patience: float = 120.0) -> None:
    """Until something comes out: Spark plans and compiles for the first epochs."""
    consumer, end = Consumer({"bootstrap.servers": servers, "group.id": "begin"}), time.monotonic() + patience
    while consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=30)[1] == 0:
        if time.monotonic() > end:
            raise SystemExit(f"nothing came to '{topic}' in {patience:g} s")
        time.sleep(0.1)
    consumer.close()


def batches_of(run: ps.Run) -> list[list[str]]:
    """What Spark reports of the batches of a lane that have ended: how long each part of the pause after them took."""
    lane = run.lanes["out"]
    assert lane.query is not None
    length, rows = lane.every / 1e6, []
    for report in lane.query.recentProgress:
        took = json.loads(report.json)["durationMs"]
        tasks, planning = took["addBatch"] / 1000 - length, took["queryPlanning"] / 1000
        logs = sum(took.get(part, 0) for part in ("walCommit", "commitOffsets", "latestOffset", "getBatch")) / 1000
        rows.append([str(len(rows) + 1), *map(_ms, (planning, tasks, logs, planning + tasks + logs))])
    return rows


# lookups, and operators before the view


class Passed(ps.Processor):
    """Counts the events of a key, and passes them on."""

    output = "k int, sent bigint, passed bigint"
    passed = ps.value("bigint", default=0)

    def on_event(self, key: int, event: Any, time: Any) -> Iterator[dict[str, Any]]:
        self.passed += 1
        yield {"k": key, "sent": event.sent, "passed": self.passed}


def by_lookup(spark: SparkSession, folder: Path, load: Load, operators: int) -> Measured:
    """Events by POST, through operators into a view, and a lookup after each second of them."""
    app = ps.App("latency")
    flow: Any = app.stream("events", ps.http("events"), schema="k int, sent bigint")
    for number in range(operators):
        flow = app.process(f"passed_{number}", flow, Passed, by="k")
    app.view("counts", counted(flow))
    run = app.start(folder, spark=spark)
    try:
        with Server(folder, Settings(port=0)) as server:
            client = _client("post", server.url, load.rate, load.warm, load.seconds)
            time.sleep(load.warm)
            since = time.time_ns() // 1000
            weighted = _finished(client)
            shown = read_freshness(Reader(folder), since).views.get("counts")
    finally:
        run.stop()
    return measured(weighted, shown)


# processes


def _client(*given: object) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, str(CLIENTS), *map(str, given)], stdout=subprocess.PIPE, text=True)


def _finished(client: subprocess.Popen[str]) -> list[tuple[int, int]]:
    text, _ = client.communicate()
    if client.returncode:
        raise SystemExit(f"a client failed with {client.returncode}")
    return [(micros, events) for micros, events in json.loads(text)]


# the report

KAFKA_WAYS = {
    "lane": (('real-time lane (`mode="realtime"`), at least once', by_penstock, "realtime"),),
    "rows": (
        ("hand-written micro-batches, at least once", by_hand, "rows"),
        ("epochs and the outbox, exactly once", by_penstock, "panes"),
    ),
    "views": (
        ("hand-written micro-batches, at least once", by_hand, "view"),
        ("a view and its sink, exactly once", by_penstock, "view"),
    ),
}
PAUSES = ["batch", "planning it", "tasks end, and new ones start", "logs and offsets", "together"]
TITLES = {
    "lane": "Kafka to Kafka, filter and enrich, whole batches",
    "rows": "Kafka to Kafka, filter and enrich",
    "views": "Kafka → counts of 100 keys → Kafka",
    "lookups": "POST → view → answer of a lookup (`after=`), with operators (processors) before the view",
}


def kafka_rows(part: str, spark: SparkSession, root: Path, load: Load, pauses: list[list[str]]) -> list[list[str]]:
    rows = []
    with Cluster(root / f"kafka-{part}") as kafka:
        admin = AdminClient({"bootstrap.servers": kafka.servers})
        for number, (name, way, what) in enumerate(KAFKA_WAYS[part]):
            topics, folder = (f"in-{number}", f"out-{number}"), root / f"{part}-{number}"
            for made in admin.create_topics([NewTopic(topic, 1, 1) for topic in topics]).values():
                made.result()
            running = way(spark, kafka.servers, topics, folder, what)
            receive = "counts" if what == "view" else "rows"
            rows.append(through_kafka(running, kafka.servers, topics, folder, load, receive, pauses).row(name))
            print(*rows[-1], sep=" | ", flush=True)
    return rows


def lookup_rows(spark: SparkSession, root: Path, load: Load) -> list[list[str]]:
    found = []
    for count in range(6):
        found.append(by_lookup(spark, root / f"lookups-{count}", load, count))
        print(*found[-1].row(f"{count} operators"), sep=" | ", flush=True)
    plain = found[0].taken.median
    names = ["a plain view"]
    names += [f"{n} operator{'s' if n > 1 else ''}: {found[n].taken.median / plain:.1f} times" for n in range(1, 6)]
    return [one.row(name) for one, name in zip(found, names, strict=True)]


def write(report: Report, part: str) -> None:
    """Writes a part of the results; other parts stay as they were measured before."""
    text = report.path.read_text() if report.path.exists() else ""
    known = dict(re.findall(r"^## (\w+)\n\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL))
    known[part] = "\n".join(report.lines)
    report.path.write_text("\n".join(f"## {name}\n\n{known[name].strip()}\n" for name in PARTS if name in known))


def main() -> None:
    options = argparse.ArgumentParser(description="end-to-end latency")
    options.add_argument("--rate", type=float, default=10_000, help="events a second")
    options.add_argument("--seconds", type=float, default=60.0, help="how long each way is measured")
    options.add_argument("--warm", type=float, default=20.0, help="how long each way runs before")
    options.add_argument("--parts", default=",".join(PARTS[1:]), help="some of lane, rows, views, lookups")
    options.add_argument("--note", default="", help="what to add to the titles, for example ', under load'")
    given = options.parse_args()
    parts, load = given.parts.split(","), Load(given.rate, given.seconds, given.warm)
    if unknown := set(parts) - set(PARTS):
        options.error(f"no such parts: {', '.join(unknown)}")
    root = Path(tempfile.mkdtemp(prefix="penstock-latency-"))
    spark = spark_session("latency", master="local[4]", kafka=True)
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    by_hand_state(spark)
    for part in parts:
        pauses = list[list[str]]()
        rows = lookup_rows(spark, root, load) if part == "lookups" else kafka_rows(part, spark, root, load, pauses)
        own = " --parts lane" if part == "lane" else ""
        report = Report("latency", f"python bench/latency.py{own} --seconds {load.seconds:g} --warm {load.warm:g}")
        report.table(f"{TITLES[part]}; {load.rate:,.0f} events/s for {load.seconds:g} s{given.note}", HEAD, rows)
        if pauses:
            report.table("Pauses, as Spark reports them", PAUSES, pauses)
        write(report, part)
    spark.stop()
    shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    main()
