"""What an epoch from Kafka pays, part by part: Spark's share, ours, the outbox and the sink's transaction.

    python bench/epoch_cost.py [--seconds 10]        # writes bench/results/epoch_cost.md

One view over a topic, and one topic behind the view, exactly once. Epochs of 100 events come one at a time: the next is
sent when the one before is delivered. Then 10,000 events a second come. Round trips to Java, Spark's jobs and durable
writes are counted, the latter by `perf`, where it is installed.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

sys.path.insert(0, str(Path(__file__).parent.parent))

import penstock as ps
from bench.side_by_side import Report
from penstock.dev.broker import Cluster
from penstock.runtime.epoch.small import SMALL_EPOCH, SMALL_EPOCH_BYTES
from penstock.runtime.run import Run
from penstock.runtime.spark.session import spark_session

RATE, FEW, KEYS = 10_000, 100, 100
EPOCHS = 20
#: What Spark reports of an epoch, in its words and in ours.
SPARK = {
    "latestOffset": "Spark: asks the broker for the newest offsets",
    "walCommit": "Spark: writes the epoch's offsets",
    "queryPlanning": "Spark: plans the epoch",
    "commitOffsets": "Spark: marks the epoch as done",
}
#: System calls, and what they are counted as.
CALLS = {
    "fsync": "writes forced to disk",
    "fdatasync": "writes forced to disk",
    "rename": "files renamed",
    "renameat2": "files renamed",
    "execve": "programs started",
}
#: What a commit records.
OURS = {
    "reduce": "read, parse and reduce",
    "merge": "merge and triggers",
    "write": "write: state, panes, progress",
}


@dataclass
class Costs:
    """Times of the epochs of one run, in milliseconds, and what one epoch needs on average."""

    parts: dict[str, list[float]] = field(default_factory=dict)
    counts: dict[str, float] = field(default_factory=dict)

    def add(self, part: str, milliseconds: float) -> None:
        self.parts.setdefault(part, []).append(milliseconds)


class JavaCalls:
    """Counts round trips between Python and Java."""

    def __init__(self) -> None:
        from py4j import clientserver, java_gateway

        self.count = 0
        for connection in (java_gateway.GatewayConnection, clientserver.ClientServerConnection):
            self._count_calls(connection)

    def _count_calls(self, connection: Any) -> None:
        send = connection.send_command

        def counted(self_: Any, command: str) -> Any:
            if not command.startswith("m\nd"):  # Python's garbage collector, in a thread of its own
                self.count += 1
            return send(self_, command)

        connection.send_command = counted


def message(number: int) -> str:
    return f'{{"k": {number % KEYS}, "sent": {time.time_ns() // 1000}}}'


def app_of(servers: str, source: str, target: str) -> ps.App:
    app = ps.App("cost")
    events = app.stream("events", ps.kafka(source, servers=servers), schema="k int, sent bigint", keep="none")
    panes = events.group_by("k").agg(n=ps.count(), first=ps.min("sent"), last=ps.max("sent")).discarding()
    view = app.view("counts", panes)
    app.sink(view, ps.to_kafka(target, servers=servers), name="out")
    return app


class Receiver:
    """Reads the panes that come out, in a thread: for each its events, and when the oldest and newest were sent."""

    def __init__(self, servers: str, topic: str) -> None:
        self._consumer = Consumer(
            {"bootstrap.servers": servers, "group.id": "cost", "isolation.level": "read_committed",
             "fetch.wait.max.ms": 5}
        )  # fmt: skip
        self._consumer.assign([TopicPartition(topic, 0, 0)])
        self.panes: list[tuple[float, int, float, float]] = []
        self.events = 0
        self._come, self._end = threading.Condition(), threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        while not self._end.is_set():
            for one in self._consumer.consume(10_000, timeout=0.002):
                if one.error() is None:
                    row, now = json.loads(one.value()), time.time() * 1000
                    with self._come:
                        self.panes.append((now, row["n"], row["first"] / 1000, row["last"] / 1000))
                        self.events += row["n"]
                        self._come.notify_all()
        self._consumer.close()

    def wait_for(self, events: int) -> None:
        with self._come:
            if not self._come.wait_for(lambda: self.events >= events, 60.0):
                raise SystemExit(f"{self.events} of {events} events came")

    def close(self) -> None:
        self._end.set()
        self._thread.join()

    def latencies(self, since: float, until: float) -> list[float]:
        """Milliseconds from event to pane; the events of a pane are taken to be spread evenly."""
        return [
            now - first - (last - first) * (number + 0.5) / count
            for now, count, first, last in self.panes
            if since <= first < until
            for number in range(count)
        ]


def taken_epochs(run: Run, after: int) -> list[tuple[Any, ...]]:
    sql = "SELECT number, rows, timings FROM __commits WHERE kind = 'epoch' AND number > ?1 AND rows > 0"
    return run.store.query(sql, [after]).rows()


def newest(run: Run) -> int:
    return int(run.store.query("SELECT coalesce(max(number), 0) FROM __commits").item())


def reports(run: Run, after: float) -> list[dict[str, Any]]:
    """What Spark reports of the epochs since a moment."""
    query = run._reading.queries["events"].query
    assert query is not None
    every = [json.loads(report.json()) for report in query._jsq.recentProgress()]
    return [one for one in every if _is_after(one, after)]


def _is_after(report: Mapping[str, Any], moment: float) -> bool:
    """Whether an epoch with events began after a moment."""
    (source,) = report["sources"]
    is_later = datetime.fromisoformat(report["timestamp"]).timestamp() > moment
    return is_later and source["startOffset"] != source["endOffset"]


@contextmanager
def system_calls(counts: dict[str, float], epochs: int) -> Iterator[None]:
    """Counts durable writes, renames and started programs of this process and of Java, if perf can be used."""
    from pyspark import SparkContext

    perf, gateway = shutil.which("perf"), SparkContext._gateway
    if perf is None:
        yield
        return
    assert gateway is not None
    events = ",".join(f"syscalls:sys_enter_{name}" for name in CALLS)
    command = [perf, "stat", "-x", ",", "-e", events, "-p", f"{os.getpid()},{gateway.proc.pid}"]
    counter = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    yield
    counter.send_signal(signal.SIGINT)
    _, lines = counter.communicate()
    for count, name in re.findall(r"^(\d+),,syscalls:sys_enter_(\w+)", lines, re.MULTILINE):
        counts[CALLS[name]] = counts.get(CALLS[name], 0) + int(count) / epochs


def one_at_a_time(run: Run, servers: str, source: str, receiver: Receiver, calls: JavaCalls) -> Costs:
    """Epochs of a few events each."""
    costs, producer = Costs(), Producer({"bootstrap.servers": servers, "linger.ms": 0})

    def send() -> float:
        began, before = time.perf_counter(), receiver.events
        for number in range(FEW):
            producer.produce(source, value=message(number))
        producer.flush()
        receiver.wait_for(before + FEW)
        return (time.perf_counter() - began) * 1000

    for _ in range(5):
        send()
    after, before, since = newest(run), calls.count, time.time()
    with system_calls(costs.counts, EPOCHS):
        for _ in range(EPOCHS):
            costs.add("from the first event to its pane in the topic", send())
    costs.counts["Python to Java and back"] = (calls.count - before) / EPOCHS
    note(costs, run, after, since)
    return costs


def steady(run: Run, servers: str, source: str, receiver: Receiver, calls: JavaCalls, seconds: float) -> Costs:
    """Epochs as they come at a steady rate."""
    costs, warm = Costs(), 5.0
    sender = subprocess.Popen([sys.executable, __file__, "--send", servers, source])
    try:
        time.sleep(warm)
        after, before, since = newest(run), calls.count, time.time()
        time.sleep(seconds)
        count, until = calls.count - before, time.time()
        epochs = taken_epochs(run, after)
    finally:
        sender.kill()
        sender.wait()
    costs.counts["epochs"] = len(epochs)
    costs.counts["events an epoch"] = statistics.median(rows for _, rows, _ in epochs)
    costs.counts["Python to Java and back"] = count / len(epochs)
    note(costs, run, after, since)
    time.sleep(2.0)
    taken = receiver.latencies(since * 1000, until * 1000)
    cut = statistics.quantiles(taken, n=100)
    costs.add("from event to pane in the topic, median", cut[49])
    costs.add("from event to pane in the topic, 99th percentile", cut[98])
    costs.counts["share of events seen"] = len(taken) / ((until - since) * RATE)
    return costs


def note(costs: Costs, run: Run, after: int, since: float) -> None:
    for _, _, timings in taken_epochs(run, after):
        for part, seconds in json.loads(timings).items():
            costs.add(OURS.get(part, part), seconds * 1000)
    for report in reports(run, since):
        taken = report["durationMs"]
        for part, words in SPARK.items():
            if part in taken:
                costs.add(words, taken[part])
        known = sum(taken.get(part, 0) for part in (*SPARK, "addBatch"))
        costs.add("Spark: the rest", taken["triggerExecution"] - known)
        costs.add("foreachBatch, all of ours", taken["addBatch"])
        costs.add("the epoch", taken["triggerExecution"])


def send_steadily(servers: str, topic: str) -> None:
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 1})
    begin, number = time.time(), 0
    while True:
        due = int((time.time() - begin) * RATE)
        while number < due:
            producer.produce(topic, value=message(number))
            number += 1
        producer.poll(0)
        time.sleep(0.001)


def measured(servers: str, folder: Path, way: str, most: int, seconds: float) -> dict[str, Costs]:
    admin = AdminClient({"bootstrap.servers": servers})
    source, target = f"in-{way}", f"out-{way}"
    for made in admin.create_topics([NewTopic(source, 1, 1), NewTopic(target, 1, 1)]).values():
        made.result()
    spark = spark_session("cost", master="local[2]", kafka=True, options={SMALL_EPOCH: str(most)})
    calls, receiver = JavaCalls(), Receiver(servers, target)
    run = app_of(servers, source, target).start(folder / way, spark=spark)
    try:
        few = one_at_a_time(run, servers, source, receiver, calls)
        many = steady(run, servers, source, receiver, calls, seconds)
    finally:
        run.stop()
        receiver.close()
        spark.stop()
    return {f"{FEW} events": few, f"{RATE:,} events/s": many}


def table(report: Report, title: str, columns: Mapping[str, Costs]) -> None:
    parts = list(dict.fromkeys(part for costs in columns.values() for part in costs.parts))
    rows = [
        [part, *(f"{statistics.median(costs.parts[part]):,.0f} ms" if part in costs.parts else "–"
                 for costs in columns.values())]
        for part in sorted(parts, key=lambda part: not part.startswith("Spark"))
    ]  # fmt: skip
    counts = list(dict.fromkeys(name for costs in columns.values() for name in costs.counts))
    rows += [
        [name, *(f"{costs.counts[name]:,.1f}" if name in costs.counts else "–" for costs in columns.values())]
        for name in counts
    ]
    report.table(title, ["part", *columns], rows)


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--seconds", type=float, default=10.0)
    arguments.add_argument("--way", choices=("driver", "tasks", "both"), default="both")
    arguments.add_argument("--send", nargs=2)
    chosen = arguments.parse_args()
    if chosen.send:
        send_steadily(*chosen.send)
        return
    report = Report("epoch_cost", "python bench/epoch_cost.py")
    folder = Path(tempfile.mkdtemp(prefix="penstock-cost-"))
    ways = {"tasks": 0, "driver": SMALL_EPOCH_BYTES}
    columns: dict[str, Costs] = {}
    with Cluster(folder / "kafka") as kafka:
        for way, most in ways.items():
            if chosen.way in (way, "both"):
                costs = measured(kafka.servers, folder, way, most, chosen.seconds)
                columns |= {f"{size}, {way}": one for size, one in costs.items()}
    table(report, "An epoch from Kafka to a view to Kafka, medians", columns)
    report.write()
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
