"""Reads small epochs of Kafka on the driver, with a consumer that stays connected: no Spark job is planned for them.

Spark cuts the epoch and says from where to where it goes. The rows are those that `columns.messages` gives. Where that
is in doubt, there are none, and Spark reads the epoch: offsets that are not there, a client that fails or does not know
an option, text that is not UTF-8.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from penstock.kafka_client import client_settings, load
from penstock.model.types import Schema
from penstock.sources.base import ARRIVED, REASON
from penstock.sources.kafka.columns import KEY, VALUE, partition_number

if TYPE_CHECKING:
    from penstock.sources.kafka.source import Kafka

_log = logging.getLogger("penstock.sources")
Offsets = Mapping[str, Mapping[str, int]]
Partition = tuple[str, int]
#: How many bytes of JSON a message is as much work as, besides its own bytes.
_MESSAGE: Final = 16
#: What messages are taken to hold until some were read.
_BYTES: Final = 200.0
#: How many messages are asked for at once.
_AT_ONCE: Final = 2_000
#: Seconds until Spark reads the epoch instead, and between two looks for the end of a partition.
_PATIENCE: Final = 5.0
_LOOK: Final = 0.02
#: Seconds until a client that failed is tried again: these, then twice as many, and so on.
_PAUSE, _LONGEST_PAUSE = 1.0, 60.0
_SETTINGS: Final = {
    "enable.auto.commit": False,
    "enable.partition.eof": True,  # transactions end with a message that nobody gets: the end must be reported
    "fetch.wait.max.ms": 50,
    "fetch.queue.backoff.ms": 20,
    "queued.max.messages.kbytes": 4096,
    "auto.offset.reset": "error",
    "check.crcs": True,
    "socket.nagle.disable": True,
}


class Unreadable(Exception):
    """Spark has to read this epoch."""


@dataclass(frozen=True)
class Span:
    """What an epoch takes of one partition: from an offset up to, and without, another."""

    start: int
    end: int


class DirectReader:
    """The consumer of one stream on the driver. What it fetched beyond an epoch is there for the next one.

    After `patience` seconds without the end of an epoch Spark reads it.
    """

    def __init__(self, log: Kafka, patience: float = _PATIENCE) -> None:
        self._log, self._patience = log, patience
        self._consumer: Any = None
        self._at: dict[Partition, int] = {}  # the next offset of each partition
        self._ahead: list[Any] = []  # messages of later epochs, and ends of partitions there
        self._bytes = _BYTES  # that a message has
        self._pause, self._due = 0.0, 0.0
        self._lock = threading.Lock()

    def read(self, before: str | None, offsets: str, schema: Schema, most: int) -> pa.Table | None:
        """The messages between two offsets of Spark's, if they are within a limit of bytes. None: Spark has to read."""
        spans = _spans(before, offsets)
        if not spans or most <= 0 or time.monotonic() < self._due or not self._log.decodes(schema):
            return None
        with self._lock:
            if sum(span.end - span.start for span in spans.values()) * (self._bytes + _MESSAGE) > most:
                self._bytes = max(_BYTES, 0.9 * self._bytes)  # else a few large messages would always count
                self._rest()
                return None
            try:
                rows = _rows(self._log, schema, self._messages(spans, most))
                self._pause = 0.0
                return rows
            except Unreadable as error:
                _log.debug("Spark reads an epoch of %r: %s", self._log, error)
                self._rest()
            except Exception as error:  # the client's, and those of options that it does not know
                self._pause = min(_LONGEST_PAUSE, 2 * self._pause or _PAUSE)
                self._due = time.monotonic() + self._pause
                _log.info("Spark reads small epochs of %r for %g s: %s", self._log, self._pause, error)
                self._disconnect()
        return None

    def close(self) -> None:
        with self._lock:
            self._due = float("inf")
            self._disconnect()

    def _messages(self, spans: Mapping[Partition, Span], most: int) -> dict[Partition, list[Any]]:
        """The messages of these spans, in the order of partitions and offsets."""
        consumer = self._connected({partition: span.start for partition, span in spans.items()})
        missing = {partition: span.end - span.start for partition, span in spans.items() if span.end > span.start}
        messages: dict[Partition, list[Any]] = {partition: [] for partition in sorted(spans)}
        come, self._ahead = self._ahead, []
        count, size, until = 0, 0, time.monotonic() + self._patience
        while True:
            for message in come:
                error, partition, offset = message.error(), (message.topic(), message.partition()), message.offset()
                if error is not None and error.code() != load().KafkaError._PARTITION_EOF:
                    raise load().KafkaException(error)
                span, chunk = spans[partition], messages[partition]
                reached = offset + 1 if error is None else offset
                if reached > span.end:
                    self._ahead.append(message)  # the next epoch needs to know of the end too
                elif error is None:
                    if offset < (chunk[-1].offset() + 1 if chunk else span.start):
                        raise Unreadable(f"the offset {offset} of {partition} came once more")
                    chunk.append(message)
                    count, size = count + 1, size + len(message)
                if reached >= span.end:
                    missing.pop(partition, None)
                elif partition in missing:
                    missing[partition] = span.end - reached
            if size > 2 * most:
                self._bytes = size / count
                raise Unreadable(f"messages have {self._bytes:,.0f} bytes")
            if not missing:
                break
            if time.monotonic() > until:
                raise TimeoutError(f"the end of {', '.join(map(str, missing))} did not come in {self._patience:g} s")
            come = consumer.consume(min(sum(missing.values()), _AT_ONCE), _LOOK)
        self._at = {partition: span.end for partition, span in spans.items()}
        if count:
            self._bytes += 0.2 * (size / count - self._bytes)
        return messages

    def _connected(self, starts: dict[Partition, int]) -> Any:
        """The consumer, at these offsets."""
        kafka = load()
        if self._consumer is None:
            options = dict(self._log.options)
            group = f"{options.get('groupIdPrefix', 'spark-kafka-source')}-penstock-driver"
            self._consumer = kafka.Consumer(
                {
                    **_SETTINGS,
                    **client_settings(self._log.bootstrap, options),
                    "isolation.level": options.get("kafka.isolation.level", "read_committed"),
                    "group.id": group,
                    "logger": _log,
                }
            )
        if starts != self._at:
            self._ahead.clear()
            self._consumer.assign([kafka.TopicPartition(topic, n, at) for (topic, n), at in starts.items()])
            self._at = starts
        return self._consumer

    def _rest(self) -> None:
        """Fetches nothing until it is asked again."""
        self._at = {}
        self._ahead.clear()
        if self._consumer is not None:
            self._consumer.unassign()

    def _disconnect(self) -> None:
        self._at = {}
        self._ahead.clear()
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            consumer.close()


def _spans(before: str | None, offsets: str) -> dict[Partition, Span]:
    """What an epoch takes of each partition; nothing if one is new, gone or went back: then Spark decides."""
    if before is None:
        return {}
    starts, ends = _flat(json.loads(before)), _flat(json.loads(offsets))
    if starts.keys() != ends.keys() or any(not 0 <= starts[key] <= ends[key] for key in ends):
        return {}
    return {key: Span(starts[key], end) for key, end in ends.items()} if starts != ends else {}


def _flat(offsets: Offsets) -> dict[Partition, int]:
    return {(topic, int(n)): at for topic, partitions in offsets.items() for n, at in partitions.items()}


# Messages as rows


def _rows(log: Kafka, schema: Schema, messages: Mapping[Partition, list[Any]]) -> pa.Table:
    """Messages as Spark hands them to tasks: see `columns.messages`."""
    numbers: list[int] = []
    for partition, several in messages.items():
        numbers += [partition_number(*partition) if log.several else partition[1]] * len(several)
    every = [one for several in messages.values() for one in several]
    values = [one.value() for one in every]
    keys = [_text(one.key(), "a key") if value is None else None for one, value in zip(every, values, strict=True)]
    columns = {
        "__partition": pa.array(numbers, pa.int32()),
        "__offset": pa.array([one.offset() for one in every], pa.int64()),
        ARRIVED: pa.array([_time(*one.timestamp()) // 1000 for one in every], pa.int64()),
        VALUE: pa.array(values, pa.binary()),
        KEY: pa.array(keys, pa.string()),
        REASON: pa.nulls(len(every), pa.string()),
    }
    for name, part in log.metadata:
        if name in schema.names:
            columns[name] = _part(part, schema.type_of(name), every)
    return pa.table(columns)


def _part(part: str, kind: str, messages: Iterable[Any]) -> pa.Array:
    """A part of messages that is not their value, as a column."""
    if part == "topic":
        return pa.array([one.topic() for one in messages], pa.string())
    if part == "partition":
        return pa.array([one.partition() for one in messages], pa.int32())
    if part == "offset":
        return pa.array([one.offset() for one in messages], pa.int64())
    if part == "timestamp":
        return pa.array([_time(*one.timestamp()) for one in messages], pa.timestamp("us", "UTC"))
    if part == "headers":
        return pa.array([_headers(one.headers()) for one in messages], pa.string())
    if part == "key":
        values: Iterator[bytes | None] = (one.key() for one in messages)
    elif part.startswith("header:"):
        values = map(partial(_header, part.removeprefix("header:")), messages)
    else:
        raise Unreadable(f"only Spark knows the part {part} of a message")
    if kind == "binary":
        return pa.array(list(values), pa.binary())
    return pa.array([_text(value, part) for value in values], pa.string())


def _time(kind: int, milliseconds: int) -> int:
    """The time of a message; Java says -1 where there is none."""
    return (-1 if kind == load().TIMESTAMP_NOT_AVAILABLE else milliseconds) * 1000


def _header(name: str, message: Any) -> bytes | None:
    """The value of the last header of a name."""
    values: list[bytes | None] = [value for key, value in message.headers() or () if key == name]
    return values[-1] if values else None


def _headers(headers: list[tuple[str, bytes | None]] | None) -> str | None:
    """All headers in the order of the message, as Spark writes them in JSON."""
    if not headers:
        return None
    members = [
        {"key": key} if value is None else {"key": key, "value": _text(value, "a header")} for key, value in headers
    ]
    text = json.dumps(members, ensure_ascii=False, separators=(",", ":"))
    if "\\u" in text:
        raise Unreadable("a header has control characters, which Spark writes in another way")
    return text


def _text(value: bytes | None, what: str) -> str | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        raise Unreadable(f"{what} is not text in UTF-8") from None
