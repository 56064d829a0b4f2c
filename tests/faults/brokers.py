"""The app on Kafka, log and sink, with real brokers that are killed, stopped and made to hang."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from confluent_kafka import Producer

import penstock as ps
from penstock.app import App
from penstock.dev.broker import Broker, Cluster
from tests.faults.app import define
from tests.faults.support import Rig, until
from tests.kafka.support import Kafka

#: Kafka's clients give up after a minute or two; nobody wants to wait for that in a test.
IMPATIENT = {
    "kafka.default.api.timeout.ms": "5000",
    "kafka.request.timeout.ms": "3000",
    "kafkaConsumer.pollTimeoutMs": "5000",
    "fetchOffset.numRetries": "1",
}


class KafkaRig(Rig):
    """Two partitions to read, two to write; the producer waits for all copies (`acks=all`)."""

    def __init__(
        self, spark: Any, root: Path, cluster: Cluster, copies: int = 1, settings: Any = IMPATIENT, **options: Any
    ) -> None:
        super().__init__(spark, root, **options)
        self.cluster, self.kafka, self.settings = cluster, Kafka(cluster), settings
        self.source, self.target = (f"{name}-{root.name}" for name in ("in", "out"))
        for topic in (self.source, self.target):
            self.kafka.create(topic, 2, copies)
        self.producer = Producer(
            {"bootstrap.servers": cluster.servers, "enable.idempotence": True, "acks": "all", "linger.ms": 5}
        )

    def app(self) -> App:
        app, _ = define(ps.kafka(self.source, servers=self.cluster.servers, options=self.settings))
        app.sink("sessions", ps.to_jsonl(self.root / "panes"))
        sink = ps.to_kafka(self.target, servers=self.cluster.servers, transactional_id=self.target, timeout=10)
        app.sink("sessions", sink, name="topic")
        return app

    def put(self, lines: list[str]) -> None:
        """Sends messages as soon as a broker takes them."""
        for number, line in enumerate(lines):
            self.producer.produce(self.source, line, partition=number % 2)
        self.producer.poll(0)

    def current(self) -> float:
        assert self.producer.flush(240) == 0
        return super().current()

    def outputs(self) -> dict[str, Any]:
        return {**super().outputs(), "messages": self.kafka.read(self.target)}

    def leader(self) -> Broker:
        """The broker that leads the first partition."""
        topics = self.kafka.admin.list_topics(self.source, timeout=30).topics
        found: int = topics[self.source].partitions[0].leader
        return next(broker for broker in self.cluster.brokers if broker.number == found)

    def at_the_next_epoch(self, fault: Any) -> list[bool]:
        """Does something when the next epoch has begun, before it reads; whether that was."""
        assert self.run is not None
        engine, done = self.run.groups.of("events").engine, []
        epoch = engine.epoch

        def faulty(*arguments: Any) -> Any:
            engine.epoch = epoch  # type: ignore[method-assign]
            fault()
            done.append(True)
            return epoch(*arguments)

        engine.epoch = faulty  # type: ignore[method-assign]
        return done

    def in_the_next_transaction(self, fault: Any) -> list[bool]:
        """Does something when panes were sent and their transaction is not committed; whether that was."""
        assert self.run is not None
        way, done = self.run.delivery._ways["topic"].open, []
        commit = way._commit  # type: ignore[attr-defined]

        def faulty(*arguments: Any) -> None:
            way._commit = commit  # type: ignore[attr-defined]
            fault()
            done.append(True)
            commit(*arguments)

        way._commit = faulty  # type: ignore[attr-defined]
        return done

    def shows(self, *, sink: bool = False) -> None:
        """Waits until the run shows that its stream does not get on, or that its sink does not."""
        run = self.run
        assert run is not None
        until(lambda: "topic" in run.delivery.failures if sink else "the stream 'events'" in run.faults, run)
