"""What goes along with a Kafka log on the driver: its partitions, and the offsets of its consumer group."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa

from penstock.errors import PenstockError
from penstock.kafka_client import client_settings, load
from penstock.model.types import Schema
from penstock.sources.base import Follower
from penstock.sources.kafka.columns import partition_number
from penstock.sources.kafka.direct import DirectReader

if TYPE_CHECKING:
    from penstock.sources.kafka.source import Kafka

_log = logging.getLogger("penstock.sources")
Offsets = dict[str, dict[str, int]]


class KafkaFollower(Follower):
    """Tells partitions apart, and which of them were read to their end; keeps the consumer group up to date."""

    reads_small: ClassVar[bool] = True

    def __init__(self, log: Kafka) -> None:
        self._log, self._before = log, {}  # type: tuple[Kafka, Offsets]
        self._group = None if log.group is None else GroupOffsets(log, log.group)
        self._direct = DirectReader(log)

    def reading(self, offsets: str) -> tuple[Collection[int], Collection[int]]:
        """Spark takes at least one message an epoch from each partition that has any: one that stands had none."""
        now: Offsets = json.loads(offsets)
        again = now == self._before  # the last epoch, once more
        self.epoch_size = self.epoch_size if again else self._between(now)
        numbers: dict[int, tuple[str, int]] = {}
        quiet = set()
        for topic, partitions in now.items():
            for text, at in partitions.items():
                number = partition_number(topic, int(text)) if self._log.several else int(text)
                if number in numbers:
                    raise PenstockError(
                        f"the partitions {numbers[number]} and {(topic, int(text))} cannot be distinguished",
                        hint="read the two topics as two streams",
                    )
                numbers[number] = (topic, int(text))
                if not again and self._before.get(topic, {}).get(text) == at:
                    quiet.add(number)
        self._before = now
        return numbers.keys(), quiet

    def _between(self, now: Offsets) -> int | None:
        """How many offsets lie between the epoch before and this one; of a partition that was not there, all."""
        if not self._before:
            return None
        ends = ((topic, text, at) for topic, partitions in now.items() for text, at in partitions.items())
        return sum(at - self._before.get(topic, {}).get(text, 0) for topic, text, at in ends)

    def committed(self, offsets: str) -> None:
        if self._group is not None:
            self._group.set(json.loads(offsets))

    def small_epoch(
        self, before: str | None, offsets: str, positions: Mapping[str, range] | None, schema: Schema, most: int
    ) -> pa.Table | None:
        return self._direct.read(before, offsets, schema, most)

    def close(self) -> None:
        self._direct.close()
        if self._group is not None:
            self._group.close()


class GroupOffsets:
    """Commits a consumer group's offsets in a thread of its own: Kafka being slow or away holds up no epoch.

    They are for tools that show lag. Nothing here reads them.
    """

    def __init__(self, log: Kafka, group: str) -> None:
        self._group = group
        self._consumer = load().Consumer(
            {
                **client_settings(log.bootstrap, dict(log.options)),
                "group.id": group,
                "enable.auto.commit": False,
                "logger": _log,
            }
        )
        self._wanted: Offsets | None = None
        self._change, self._closing = threading.Condition(), False
        self._thread = threading.Thread(target=self._commit_on, name=f"penstock-group-{group}", daemon=True)
        self._thread.start()

    def set(self, offsets: Offsets) -> None:
        with self._change:
            self._wanted = offsets
            self._change.notify()

    def close(self, seconds: float = 5.0) -> None:
        """Commits what is left, waiting at most `seconds`."""
        with self._change:
            self._closing = True
            self._change.notify()
        self._thread.join(seconds)

    def _commit_on(self) -> None:
        while True:
            with self._change:
                self._change.wait_for(lambda: self._wanted is not None or self._closing)
                wanted, self._wanted = self._wanted, None
                if wanted is None:
                    break
            self._commit(wanted)
        self._consumer.close()

    def _commit(self, wanted: Offsets) -> None:
        partition: Any = load().TopicPartition
        places = [partition(topic, int(n), at) for topic, parts in wanted.items() for n, at in parts.items()]
        try:
            done = self._consumer.commit(offsets=places, asynchronous=False)
            failed = [place for place in done or () if place.error is not None]
            if failed:
                _log.warning("the offsets of the group '%s' were not taken: %s", self._group, failed[0].error)
        except Exception as error:  # Kafka's errors, and those of the client's queue
            _log.warning("the offsets of the group '%s' could not be committed: %s", self._group, error)
