"""A Kafka broker with the input of a workload in topics, and the answers that come into others."""

from __future__ import annotations

import json
import math
import os
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import polars as pl
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from bench.peers.answers import WrongAnswer
from bench.peers.contender import Contender
from bench.peers.sender import PARTITIONS
from penstock.dev.broker import Cluster

#: Seconds that events of a full topic may be out of order: its partitions are read each at its own speed, and all end
#: with views that are two hours later.
DISORDER = 10_800


@dataclass
class Log:
    """The broker, and the topics that were filled, by the folder of their input."""

    cluster: Cluster
    topics: dict[Path, str] = field(default_factory=dict)

    @property
    def servers(self) -> str:
        return self.cluster.servers

    @property
    def processes(self) -> list[int]:
        """The broker's processes."""
        return [broker.pid for broker in self.cluster.brokers]

    def new(self, kind: str, partitions: int = PARTITIONS) -> str:
        """A new topic."""
        name = f"{kind}-{uuid.uuid4().hex[:12]}"
        admin = AdminClient({"bootstrap.servers": self.servers})
        admin.create_topics([NewTopic(name, partitions, 1)])[name].result()
        return name

    def filled(self, folder: Path, last: list[str]) -> str:
        """The topic with the lines of a folder, in order over all partitions; then each partition has the last ones."""
        if folder not in self.topics:
            topic = self.new("in")
            producer = Producer({
                "bootstrap.servers": self.servers, "linger.ms": 50, "batch.size": 1_000_000,
                "queue.buffering.max.messages": 1_000_000,
            })  # fmt: skip
            for path in sorted(folder.glob("*.json")):
                for number, line in enumerate(path.read_bytes().splitlines()):
                    producer.produce(topic, line, partition=number % PARTITIONS)
                producer.flush()
            for line in last:
                for partition in range(PARTITIONS):
                    producer.produce(topic, line, partition=partition)
            producer.flush()
            self.topics[folder] = topic
        return self.topics[folder]


@contextmanager
def started() -> Iterator[Log]:
    """A broker of its own, with its data in a folder that goes with it."""
    with TemporaryDirectory(prefix="penstock-peers-") as folder, Cluster(folder) as cluster:
        yield Log(cluster)


def environment(contender: Contender, log: Log, source: str, target: str, disorder: float) -> dict[str, str]:
    """What a job between two topics reads of its environment. A full topic has DISORDER; into others events come."""
    return {
        "PEERS_SERVERS": log.servers, "PEERS_TOPIC": source, "PEERS_ANSWER": target, "PEERS_DISORDER": str(disorder),
        "PEERS_LIVE": "" if disorder == DISORDER else "1",
        "PEERS_JARS": os.pathsep.join(map(str, contender.jars())),
    }  # fmt: skip


class Answer:
    """The newest value of each row of an answer, as it comes into a topic. Times are milliseconds."""

    def __init__(self, servers: str, topic: str) -> None:
        self.rows: dict[tuple[str, int], int] = {}
        self._consumer = Consumer({
            "bootstrap.servers": servers, "group.id": topic, "isolation.level": "read_committed",
        })  # fmt: skip
        self._consumer.assign([TopicPartition(topic, 0, 0)])

    def take(self, patience: float = 0.05) -> list[tuple[str, int]]:
        """Waits for messages a moment, and says whose values changed."""
        changed = []
        for message in self._consumer.consume(10_000, timeout=patience):
            if message.error() is not None or message.value() is None:
                continue
            row = read(json.loads(message.value()))
            if row is not None and self.rows.get(row[:2]) != row[2]:
                self.rows[row[:2]] = row[2]
                changed.append(row[:2])
        return changed

    def close(self) -> None:
        self._consumer.close()


class Awaited:
    """Whether an answer is all there; it is wrong as soon as it has a row that is not in the right one."""

    def __init__(self, answer: Answer, right: pl.DataFrame) -> None:
        self.first = math.inf  # on the monotonic clock, when the first row came
        self._answer = answer
        self._right = {(key, int(start.replace(tzinfo=UTC).timestamp() * 1000)): n for key, start, n in right.rows()}
        self._missing = set(self._right)
        self._end = max((start for _, start in self._right), default=0)

    def is_complete(self) -> bool:
        for row in self._answer.take():
            self.first = min(self.first, time.monotonic())
            value = self._answer.rows[row]
            if row[1] <= self._end and value > self._right.get(row, 0):
                raise WrongAnswer(f"it has {(*row, value)} where DuckDB has {self._right.get(row, 'no row')}")
            if value == self._right.get(row):
                self._missing.discard(row)
        return not self._missing

    @property
    def lack(self) -> str:
        """What is missing, in a few words."""
        row = min(self._missing, default=None)
        if row is None:
            return "nothing is missing"
        return (
            f"{len(self._missing)} of {len(self._right)} rows are missing: it has "
            f"{self._answer.rows.get(row, 'nothing')} for {(*row, self._right[row])}"
        )


def read(row: Mapping[str, Any]) -> tuple[str, int, int] | None:
    """The key, the start and the value of a message; None if it takes a row back."""
    if row.get("diff") == -1:
        return None
    start = row["window_start"] if "window_start" in row else row["start"]
    if isinstance(start, str):
        text = start.replace("Z", "+00:00").replace(" ", "T", 1)
        time = datetime.fromisoformat(text)
        start = (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1000
    return row["campaign"], int(start), int(row["n"])
