"""Events in a topic of Kafka."""

from penstock.sources.kafka.source import Kafka, kafka

__all__ = ["Kafka", "kafka"]
