"""The reader of small Kafka epochs with a client that gives messages in the least convenient order."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import confluent_kafka
import pytest

import penstock as ps
from penstock.model.types import Schema
from penstock.sources.kafka import direct

#: Offsets that hold a message; the others are the ends of transactions.
MESSAGES = {0: [0, 1, 2, 3, 5, 6, 7, 8], 1: [0, 1, 2, 3, 4]}
ENDS = {0: 10, 1: 5}


class Message:
    def __init__(self, partition: int, offset: int, *, is_end: bool = False) -> None:
        self._partition, self._offset, self._is_end = partition, offset, is_end

    def topic(self) -> str:
        return "t"

    def partition(self) -> int:
        return self._partition

    def offset(self) -> int:
        return self._offset

    def error(self) -> Any:
        code = confluent_kafka.KafkaError._PARTITION_EOF
        return SimpleNamespace(code=lambda: code) if self._is_end else None

    def value(self) -> bytes:
        return b'{"v": 1}'

    def key(self) -> None:
        return None

    def timestamp(self) -> tuple[int, int]:
        return 1, 1_700_000_000_000

    def __len__(self) -> int:
        return 8


class EagerConsumer:
    """Gives all of partition 0 with its end before anything of partition 1, and each end once."""

    def __init__(self, _: Any) -> None:
        self._queue: list[Message] = []

    def assign(self, places: list[Any]) -> None:
        self._queue = []
        for place in places:
            later = [offset for offset in MESSAGES[place.partition] if offset >= place.offset]
            self._queue += [Message(place.partition, offset) for offset in later]
            self._queue.append(Message(place.partition, ENDS[place.partition], is_end=True))

    def unassign(self) -> None:
        self._queue = []

    def consume(self, count: int, timeout: float) -> list[Message]:
        messages, self._queue = self._queue[:count], self._queue[count:]
        return messages

    def close(self) -> None:
        self._queue = []


def offsets(first: int, second: int) -> str:
    return json.dumps({"t": {"0": first, "1": second}})


@pytest.mark.parametrize("middle", [(0, 5), (3, 2), (5, 0), (9, 1), (10, 0)])
def test_what_came_too_early_is_there_for_the_next_epoch(monkeypatch, middle):
    client = SimpleNamespace(**{**vars(confluent_kafka), "Consumer": EagerConsumer})
    monkeypatch.setattr(direct, "load", lambda: client)
    reader, schema = direct.DirectReader(ps.kafka("t")), Schema.parse("v int")
    places = []
    for before, after in (((0, 0), middle), (middle, (10, 5))):
        rows = reader.read(offsets(*before), offsets(*after), schema, 1 << 20)
        assert rows is not None
        places += zip(rows["__partition"].to_pylist(), rows["__offset"].to_pylist(), strict=True)
    assert sorted(places) == [(partition, offset) for partition in MESSAGES for offset in MESSAGES[partition]]
    reader.close()
