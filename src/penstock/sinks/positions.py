"""How far sinks in Kafka are, kept in Kafka itself: a small topic of one partition, compacted by transactional id.

A sink writes its position there in the transaction that brings the panes, and when it is opened: so the newest record
under its id tells how far it is, and which process writes as it.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from penstock.kafka_client import load
from penstock.sinks.base import SinkError

TOPIC: Final = "penstock-positions"
_SECONDS: Final = 180.0  # longer than a transaction that another sink has left open can stay in the way
_SILENT: Final = 10.0  # seconds without an answer from Kafka after which it is asked again, by another connection
_SETTINGS: Final = {"cleanup.policy": "compact", "segment.ms": "600000", "min.cleanable.dirty.ratio": "0.1"}


@dataclass(frozen=True)
class Claim:
    """What a sink has written: the last pane, the store that it is of, and the process that writes."""

    pane: int
    store: int | None
    owner: str


class Positions:
    """The positions of one transactional id. Kafka may take `patience` seconds for an answer."""

    def __init__(self, settings: Mapping[str, Any], transactional_id: str, patience: float) -> None:
        self._settings, self._id, self._patience = dict(settings), transactional_id, patience
        self._owner = str(uuid.uuid4())
        self.topic = TOPIC

    def claim(self, pane: int, store: int | None) -> bytes:
        return json.dumps({"pane": pane, "store": store, "owner": self._owner}).encode()

    def is_taken(self) -> bool:
        """Whether another process has opened the sink since this one did."""
        existing_topics = self.read()
        return existing_topics is not None and existing_topics.owner != self._owner

    def prepare(self, *topics: str) -> None:
        """Makes the topics that are missing: this one, and others with what the brokers do by default."""
        kafka_admin = _admin_module()
        admin = kafka_admin.AdminClient(self._settings)
        known = admin.list_topics(timeout=self._patience).topics
        new = [kafka_admin.NewTopic(topic, num_partitions=-1, replication_factor=-1) for topic in topics]
        new.append(kafka_admin.NewTopic(TOPIC, num_partitions=1, replication_factor=-1, config=_SETTINGS))
        missing = [topic for topic in new if topic.topic not in known]
        if not missing:
            return
        for future in admin.create_topics(missing, operation_timeout=self._patience).values():
            try:
                future.result()
            except load().KafkaException as error:
                if error.args[0].code() != load().KafkaError.TOPIC_ALREADY_EXISTS:
                    raise

    def read(self) -> Claim | None:
        """The newest record under this id. All that was written when this is called is waited for."""
        end, reached = self._end(), 0
        seconds = max(_SECONDS, 6 * self._patience)
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            record, reached = self._read_through(end)
            if reached >= end:
                return record
        raise SinkError(
            f"the topic '{TOPIC}' could not be read to its end within {seconds:g} s",
            detail=f"it was read to {reached}, and ends at {end}",
            hint="check for an open transaction of another producer: kafka-transactions.sh find-hanging",
        )

    def _read_through(self, end: int) -> tuple[Claim | None, int]:
        """The newest record under this id up to this end, as far as Kafka gives them, and how far that is."""
        kafka = load()
        consumer = kafka.Consumer(
            {
                **self._settings,
                "group.id": self._id,
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "fetch.wait.max.ms": 20,  # the end is reported at once
                "isolation.level": "read_committed",
            }
        )
        newest, reached = None, 0
        try:
            consumer.assign([kafka.TopicPartition(TOPIC, 0, kafka.OFFSET_BEGINNING)])
            while reached < end:
                message = consumer.poll(_SILENT)
                if message is None:
                    break
                if message.error() is None:
                    reached = message.offset() + 1
                    if message.key() == self._id.encode():
                        newest = Claim(**json.loads(message.value()))
                elif message.error().code() == kafka.KafkaError._PARTITION_EOF:
                    reached = message.offset()
                else:
                    raise kafka.KafkaException(message.error())
        finally:
            consumer.close()
        return newest, reached

    def _end(self) -> int:
        """The end of the topic, with what is not committed yet."""
        kafka, kafka_admin = load(), _admin_module()
        place = kafka.TopicPartition(TOPIC, 0)
        admin = kafka_admin.AdminClient(self._settings)
        futures = admin.list_offsets(
            {place: kafka_admin.OffsetSpec.latest()},
            isolation_level=kafka.IsolationLevel.READ_UNCOMMITTED,
            request_timeout=self._patience,
        )
        end: int = futures[place].result().offset
        return end


def _admin_module() -> Any:
    load()
    import confluent_kafka.admin

    return confluent_kafka.admin
