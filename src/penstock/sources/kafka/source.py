"""Kafka topics, read by Spark's own connector: JSON, CSV, Avro or raw values, and whatever else a message carries.

>>> kafka("posts", servers="localhost:9092", metadata={"user": "key", "trace": "header:trace-id"})
ps.kafka('posts', servers='localhost:9092', metadata={'user': 'key', 'trace': 'header:trace-id'})
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

import polars as pl

from penstock.errors import DefinitionError, PenstockError, unknown
from penstock.kafka_client import servers_of
from penstock.model.time import Instant, instant, show_instant
from penstock.model.types import Schema
from penstock.redaction import redact_settings, redact_url
from penstock.sources.base import Folder, Follower, Source
from penstock.sources.formats import json_lines
from penstock.sources.formats.avro import AvroReader, schema_in
from penstock.sources.kafka.columns import VALUE, check_metadata, check_payload, messages, select, shows_tombstones
from penstock.sources.kafka.json import decoded_json
from penstock.sources.kafka.reach import check_answer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FORMATS: Final = ("json", "csv", "avro", "raw")
#: Options of Spark's reader that an argument says already.
_OWN_OPTIONS: Final = {
    "kafka.bootstrap.servers": "servers", "subscribe": "the topic", "subscribePattern": "pattern", "assign": "start",
    "startingOffsets": "start", "startingTimestamp": "start", "startingOffsetsByTimestamp": "start",
    "maxOffsetsPerTrigger": "events_per_epoch", "includeHeaders": "metadata", "kafka.group.id": "group",
    "endingOffsets": "not set: a stream has no end",
}  # fmt: skip
#: How a task's consumer fetches; `options` may say otherwise. A task reads one partition, so it takes more at once than
#: the client's defaults, and it does not wait half a second for more where its partition ends.
_FETCHING: Final = {
    "kafka.fetch.max.wait.ms": "20",
    "kafka.max.partition.fetch.bytes": str(8 << 20),
    "kafka.max.poll.records": "5000",
}
_TOPIC: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")

Start = str | datetime | Mapping[str, Mapping[int, int]]
Pairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True, repr=False)
class Kafka(Source):
    """Messages of topics. `start` and what Spark keeps of it count for the first epoch only; later ones go on."""

    topics: tuple[str, ...]
    pattern: str | None = None
    servers: str | None = None
    start: str = "earliest"
    format: str = "json"
    delimiter: str = ","
    avro_schema: str | None = None
    registry: str | None = None
    metadata: Pairs = ()
    events_per_epoch: int | None = None
    group: str | None = None
    options: Pairs = ()
    avro_text: str | None = None  # what the schema file holds: it travels to the tasks

    needs_kafka: ClassVar[bool] = True

    @property
    def bootstrap(self) -> str:
        """Where the brokers are: from the option, or from the environment."""
        return servers_of(self.servers)

    def settings(self, columns: Sequence[str]) -> dict[str, str]:
        """The options of Spark's reader."""
        options = {"kafka.bootstrap.servers": self.bootstrap, "kafka.isolation.level": "read_committed", **_FETCHING}
        options |= {"subscribe": ",".join(self.topics)} if self.pattern is None else {"subscribePattern": self.pattern}
        if self.start[:1].isdigit():
            options["startingTimestamp"] = str(instant(self.start) // 1000)
            options["startingOffsetsByTimestampStrategy"] = "latest"  # where nothing is newer, what comes next
        else:
            options["startingOffsets"] = self.start
        if self.events_per_epoch is not None:
            options["maxOffsetsPerTrigger"] = str(self.events_per_epoch)
        if any(part.startswith("header") for name, part in self.metadata if name in columns):
            options["includeHeaders"] = "true"
        return options | dict(self.options)

    def check(self, schema: Schema) -> None:
        check_metadata(dict(self.metadata), schema)
        check_payload(self.format, self.payload(schema), schema)

    def check_answer(self) -> None:
        check_answer(self.bootstrap, dict(self.options).get("kafka.security.protocol", "PLAINTEXT"))

    def payload(self, schema: Schema) -> tuple[str, ...]:
        """The columns that come from the message's value."""
        return tuple(name for name in schema.names if name not in dict(self.metadata))

    def read(self, spark: SparkSession, schema: Schema, columns: Sequence[str]) -> DataFrame:
        self.check(schema)
        reader = spark.readStream.format("kafka").options(**self.settings(columns))
        try:
            messages = reader.load()
        except Exception as error:
            if "data source: kafka" not in str(error):
                raise
            raise PenstockError(
                "this Spark session cannot read Kafka: it was started without Spark's Kafka connector",
                hint="let Penstock start the session, or add penstock.runtime.spark.jars.connector() into spark.jars",
            ) from error
        return self._selected(messages, schema, columns)

    def read_span(
        self, spark: SparkSession, schema: Schema, columns: Sequence[str], start: str | Instant, end: str
    ) -> DataFrame:
        """The messages from a place on (offsets as Spark writes them, "earliest", or an instant) up to offsets."""
        self.check(schema)
        names = (
            "kafka.bootstrap.servers", "kafka.isolation.level", "subscribe", "subscribePattern", "includeHeaders",
            *_FETCHING,
        )  # fmt: skip
        settings = {name: text for name, text in self.settings(columns).items() if name in names}
        settings |= {**dict(self.options), "endingOffsets": end}
        if isinstance(start, str):
            settings["startingOffsets"] = start
        else:
            settings["startingTimestamp"] = str(start // 1000)
            settings["startingOffsetsByTimestampStrategy"] = "latest"
        return self._selected(spark.read.format("kafka").options(**settings).load(), schema, columns)

    def _selected(self, messages: DataFrame, schema: Schema, columns: Sequence[str]) -> DataFrame:
        for step in self._steps(schema, columns):
            messages = messages.selectExpr(*step)
        return messages

    def _steps(self, schema: Schema, columns: Sequence[str]) -> list[list[str]]:
        metadata, payload = dict(self.metadata), self.payload(schema)
        if self.decodes(schema.pick(columns)):
            return [messages(metadata, schema, columns, several=self.several)]
        return select(self.format, self.delimiter, metadata, payload, schema, columns, several=self.several)

    def decodes(self, schema: Schema) -> bool:
        """JSON of plain types is read in the tasks: Spark's own way takes longer."""
        return self.format == "json" and json_lines.reads(schema.pick(self.payload(schema)))

    def decode(self, rows: pl.DataFrame, schema: Schema) -> pl.DataFrame:
        if VALUE not in rows.columns:
            return rows
        return decoded_json(rows, schema.pick(self.payload(schema)), tombstones=shows_tombstones(dict(self.metadata)))

    @property
    def several(self) -> bool:
        """Whether there may be more than one topic, so that the number of a partition alone does not tell which."""
        return len(self.topics) != 1

    @property
    def unit(self) -> str | None:
        return "events" if self.events_per_epoch is None else None

    def limited(self, limit: int) -> Kafka:
        return replace(self, events_per_epoch=limit)

    def behind(self, offsets: str, latest: Any) -> int | None:
        if not isinstance(latest, dict):
            return None
        read: dict[str, dict[str, int]] = json.loads(offsets)
        ends = ((topic, n, end) for topic, partitions in latest.items() for n, end in partitions.items())
        return sum(max(0, int(end) - read.get(topic, {}).get(n, 0)) for topic, n, end in ends)

    def follow(self, checkpoint: Folder) -> Follower:
        from penstock.sources.kafka.follow import KafkaFollower

        return KafkaFollower(self)

    def __repr__(self) -> str:
        arguments = [repr(self.topics[0] if len(self.topics) == 1 else list(self.topics))] if self.topics else []
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name in ("topics", "avro_text") or value == field.default:
                continue
            if field.name == "options":
                value = redact_settings(value)
            elif field.name == "registry":
                value = redact_url(value)
            elif field.name == "metadata":
                value = dict(value)
            elif field.name == "start" and value.startswith("{"):
                value = {topic: {int(n): at for n, at in ps.items()} for topic, ps in json.loads(value).items()}
            arguments.append(f"{field.name}={value!r}")
        return f"ps.kafka({', '.join(arguments)})"


@dataclass(frozen=True, repr=False)
class KafkaAvro(Kafka):
    """Messages in Avro: only Python reads them, in the tasks."""

    def decodes(self, schema: Schema) -> bool:
        return True

    def decode(self, rows: pl.DataFrame, schema: Schema) -> pl.DataFrame:
        if VALUE not in rows.columns:
            return rows  # a stream that takes nothing from the value
        reader = AvroReader(self.avro_text, self.registry, tombstones=shows_tombstones(dict(self.metadata)))
        return reader.decoded(rows, {name: schema.type_of(name) for name in self.payload(schema)})


def kafka(
    topic: str | Sequence[str] | None = None,
    *,
    pattern: str | None = None,
    servers: str | None = None,
    start: Start = "earliest",
    format: str = "json",
    delimiter: str = ",",
    avro_schema: str | Path | None = None,
    registry: str | Path | None = None,
    metadata: Mapping[str, str] | None = None,
    events_per_epoch: int | None = None,
    group: str | None = None,
    options: Mapping[str, str] | None = None,
) -> Kafka:
    """Kafka topics: one, a list, or all whose names fit a `pattern`.

    `start` is where the first run begins: "earliest", "latest", a time, or {topic: {partition: offset}}.
    `metadata` names columns that come from elsewhere than the value: {"user": "key", "trace": "header:trace-id"}; there
    are key, topic, partition, offset, timestamp, headers, header:NAME and tombstone: whether the message has no value,
    which makes a row of it instead of a dead letter. `events_per_epoch` bounds what one epoch takes. `group` is a
    consumer group whose offsets follow the commits, for tools that show lag. `options` go to Kafka's clients,
    {"kafka.security.protocol": "SASL_SSL"}. Without `servers` the environment says where Kafka is, in
    PENSTOCK_KAFKA_SERVERS.
    """
    topics = () if topic is None else (topic,) if isinstance(topic, str) else tuple(topic)
    _check_topics(topics, pattern)
    if format not in FORMATS:
        raise unknown("format of a message", format, FORMATS)
    if len(delimiter) != 1:
        raise DefinitionError(f"a delimiter is one character, and not {delimiter!r}")
    if events_per_epoch is not None and events_per_epoch < 1:
        raise DefinitionError(f"events_per_epoch must be above zero, and is {events_per_epoch}")
    spark_options = dict(options or {})
    for name in sorted(spark_options.keys() & _OWN_OPTIONS.keys()):
        raise DefinitionError(f"the option '{name}' is set by {_OWN_OPTIONS[name]}", hint="leave it out of options")
    return (KafkaAvro if format == "avro" else Kafka)(
        topics,
        pattern,
        servers,
        _start(start),
        format,
        delimiter,
        None if avro_schema is None else str(avro_schema),
        None if registry is None else str(registry),
        tuple((metadata or {}).items()),
        events_per_epoch,
        group,
        tuple((name, str(value)) for name, value in spark_options.items()),
        _avro(format, avro_schema, registry),
    )


def _check_topics(topics: tuple[str, ...], pattern: str | None) -> None:
    if bool(topics) == (pattern is not None):
        raise DefinitionError("ps.kafka takes topics or a pattern", hint="ps.kafka('posts'), ps.kafka(pattern='po.*')")
    for topic in topics:
        if not _TOPIC.fullmatch(topic):
            raise DefinitionError(f"'{topic}' cannot be a topic", hint="for several, give a list")
    if len(set(topics)) < len(topics):
        raise DefinitionError(f"a topic appears twice in {list(topics)}")


def _start(start: Start) -> str:
    """Where to begin as text: a word, a time, or Spark's JSON of offsets."""
    if isinstance(start, Mapping):
        if not start or not all(isinstance(offsets, Mapping) for offsets in start.values()):
            raise DefinitionError(f"not offsets by topic and partition: {start!r}", hint="{'posts': {0: 12, 1: 7}}")
        return json.dumps({topic: {str(n): at for n, at in offsets.items()} for topic, offsets in start.items()})
    if start in ("earliest", "latest"):
        return str(start)
    try:
        at = instant(start)
    except (DefinitionError, ValueError):
        raise DefinitionError(
            f"start={start!r} is not a position to start from",
            hint="write 'earliest', 'latest', a time like '2026-01-01T00:00:00Z', or {topic: {partition: offset}}",
        ) from None
    return show_instant(at)


def _avro(format: str, avro_schema: str | Path | None, registry: str | Path | None) -> str | None:
    """The text of the schema file; refuses what does not go with the format."""
    if (format == "avro") != (avro_schema is not None or registry is not None):
        raise DefinitionError(
            f"format={format!r} with avro_schema={avro_schema!r} and registry={registry!r}",
            hint="format='avro' takes avro_schema='post.avsc' or registry='http://…'; other formats take neither",
        )
    if avro_schema is not None and registry is not None:
        raise DefinitionError("Avro takes a schema file or a registry, and not both", hint="leave one out")
    return None if avro_schema is None else schema_in(Path(avro_schema))
