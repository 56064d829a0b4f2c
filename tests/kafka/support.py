"""What a test does with a broker through another library than the one under test, and apps that read from it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

import penstock as ps
from penstock.dev.broker import Cluster
from penstock.model.time import instant
from penstock.runtime.run import Run

PASSWORD = "not-a-secret"
BEGIN = "2026-05-01T12:00:00Z"


class Clock:
    """A clock that stands until it is moved."""

    def __init__(self) -> None:
        self.now = instant("2026-05-01T13:00:00Z")

    def __call__(self) -> int:
        return self.now

    def move(self, seconds: float) -> None:
        self.now += int(seconds * 1_000_000)


class Kafka:
    """Topics, messages and group offsets, by confluent-kafka."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster, self.servers = cluster, cluster.servers
        self.admin = AdminClient({"bootstrap.servers": self.servers})

    def create(self, topic: str, partitions: int = 1, copies: int = -1) -> None:
        self.admin.create_topics([NewTopic(topic, partitions, copies)])[topic].result()

    def put(self, topic: str, *values: Any, partition: int = 0, **settings: Any) -> None:
        """Messages in order: bytes and texts as they are, None as a tombstone, anything else as JSON."""
        producer = Producer({"bootstrap.servers": self.servers})
        for value in values:
            text = value if value is None or isinstance(value, (bytes, str)) else json.dumps(value)
            producer.produce(topic, value=text, partition=partition, **settings)
        assert producer.flush(30) == 0

    def read(self, topic: str, isolation: str = "read_committed") -> list[Any]:
        """All messages of a topic, partition by partition, up to its end."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.servers, "group.id": "reader", "enable.auto.commit": False,
                "isolation.level": isolation, "enable.partition.eof": True, "fetch.wait.max.ms": 20,
            }
        )  # fmt: skip
        partitions = consumer.list_topics(topic, timeout=30).topics[topic].partitions
        found = []
        for number in sorted(partitions):
            consumer.assign([TopicPartition(topic, number, 0)])
            while True:
                message = consumer.poll(30)
                assert message is not None, "nothing came"
                if message.error() is None:
                    found.append(message)
                elif message.error().code() == KafkaError._PARTITION_EOF:
                    break
                else:
                    raise AssertionError(message.error())
        consumer.close()
        return found

    def group(self, group: str, topic: str, partitions: int) -> dict[int, int]:
        """The committed offsets of a consumer group."""
        consumer = Consumer({"bootstrap.servers": self.servers, "group.id": group})
        found = consumer.committed([TopicPartition(topic, number) for number in range(partitions)], timeout=30)
        consumer.close()
        return {place.partition: place.offset for place in found}


def at(seconds: float) -> str:
    """An event time, so long after the beginning."""
    from penstock.model.time import show_instant

    return show_instant(instant(BEGIN) + int(seconds * 1_000_000))


def counting(
    log: Any, schema: str = "k string, v int, at timestamp", key: str = "k", **options: Any
) -> tuple[ps.App, ps.Stream]:
    """An app that counts by a column in windows of ten seconds."""
    app = ps.App("test")
    stream = app.stream(
        "events", log, schema=schema, event_time="at",
        watermark=options.pop("watermark", ps.bounded("0 seconds", idle=None)), **options,
    )  # fmt: skip
    app.view("counts", stream.group_by(key).window(ps.fixed("10 seconds")).agg(n=ps.count()))
    return app, stream


@contextmanager
def running(app: ps.App, state: Path, spark: Any, clock: Clock | None = None, **options: Any) -> Iterator[Run]:
    """The app, caught up with what the topics hold."""
    run = app.start(state, spark=spark, tick=3600.0, clock=clock or Clock(), **options)
    try:
        run.catch_up()
        yield run
    finally:
        run.stop()


def asked(run: Run, sql: str) -> list[tuple[Any, ...]]:
    return run.store.query(sql).rows()


def once(
    app: ps.App, state: Path, spark: Any, sql: str = "SELECT k, n FROM counts ORDER BY k, n"
) -> list[tuple[Any, ...]]:
    """What the app's store says when it has read all there is."""
    with running(app, state, spark) as run:
        return asked(run, sql)


DEAD = "SELECT reason, row, partition, offset FROM __refused WHERE kind = 'dead' ORDER BY partition, offset"


@dataclass
class Secure:
    """Certificates for a broker on this machine, and what both sides are told."""

    directory: Path

    def __post_init__(self) -> None:
        keys, self.certificate = self.directory / "broker.p12", self.directory / "broker.pem"
        common = ["-alias", "broker", "-keystore", str(keys), "-storepass", PASSWORD, "-storetype", "PKCS12"]
        make = ["-genkeypair", "-keyalg", "EC", "-dname", "CN=broker", "-ext", "SAN=ip:127.0.0.1,dns:localhost"]
        subprocess.run(["keytool", *make, *common], check=True, capture_output=True)
        export = ["-exportcert", "-rfc", "-file", str(self.certificate)]
        subprocess.run(["keytool", *export, *common], check=True, capture_output=True)
        module = "org.apache.kafka.common.security.plain.PlainLoginModule required"
        self.listener: Mapping[str, str] = {
            "ssl.keystore.location": str(keys),
            "ssl.keystore.password": PASSWORD,
            "ssl.keystore.type": "PKCS12",
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.sasl_ssl.plain.sasl.jaas.config": f'{module} user_penstock="{PASSWORD}";',
        }
        self.options: Mapping[str, str] = {
            "kafka.security.protocol": "SASL_SSL",
            "kafka.ssl.truststore.type": "PEM",
            "kafka.ssl.truststore.location": str(self.certificate),
            "kafka.sasl.mechanism": "PLAIN",
            "kafka.sasl.jaas.config": f'{module} username="penstock" password="{PASSWORD}";',
        }
