"""A sink that is a Kafka topic: a reader with `isolation.level=read_committed` sees each pane once, whatever fails.

>>> to_kafka("trending", servers="localhost:9092", mode="update")
ps.to_kafka('trending', servers='localhost:9092', mode='update')

A message's key is the view's key, its value the row, both as JSON; its headers tell which pane it is. The rows of a
batch and the id of its last pane are written in one transaction of Kafka's: see `positions`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import repeat
from typing import Any, Final

import polars as pl

from penstock.errors import DefinitionError, PenstockError
from penstock.kafka_client import client_settings, load, servers_of
from penstock.model.rows import Rows
from penstock.model.time import Duration, duration, in_seconds, show_duration
from penstock.redaction import redact_settings
from penstock.sinks.base import Batch, Mode, OpenSink, Sink, SinkError, Target, above_zero, newest_pane
from penstock.sinks.directory import birth_of
from penstock.sinks.files import JSON
from penstock.sinks.positions import Claim, Positions
from penstock.sinks.rows import PANE_COLUMNS, Row, decoder, frame_of
from penstock.store.present import json_of

_log = logging.getLogger("penstock.sinks")
_ROWS: Final = 10_000
_COMPACT: Final = replace(JSON, comma=",", colon=":")
#: How often a sink in real-time mode notes how far it is, and the shortest time that Spark allows.
_CHECKPOINT: Final = duration("2 minutes")
_SHORTEST_CHECKPOINT: Final = duration("5 seconds")


@dataclass(frozen=True, repr=False)
class Kafka(Sink):
    """A topic, with up to `rows_per_transaction` panes at once, in transactions of up to `timeout` seconds.

    In real-time mode there are no transactions: `checkpoint_every` is how often the sink notes how far it is.
    """

    topic: str
    servers: str | None = None
    transactional_id: str | None = None
    rows_per_transaction: int = _ROWS
    options: tuple[tuple[str, str], ...] = ()
    timeout: float = 60.0
    checkpoint_every: Duration = _CHECKPOINT

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.mode == "complete":
            raise DefinitionError(
                "a topic cannot replace a whole table",
                hint="use mode='update': the newest value of each window, by its key",
            )
        if self.checkpoint_every < _SHORTEST_CHECKPOINT:
            raise DefinitionError(
                f"checkpoint_every must be at least {show_duration(_SHORTEST_CHECKPOINT)}, and is "
                f"'{show_duration(self.checkpoint_every)}'",
                hint="rows do not wait for it: '2 minutes' is a good choice",
            )
        if self.checkpoint_every != _CHECKPOINT and self.mode != "realtime":
            raise DefinitionError(
                f"checkpoint_every is only for mode='realtime', and the mode is '{self.mode}'",
                hint="leave it out: with epochs the position is in each transaction",
            )

    @property
    def rows(self) -> int:
        return self.rows_per_transaction

    def open(self, target: Target) -> OpenSink:
        return _Writing(self, target)

    def __repr__(self) -> str:
        return self.written("to_kafka", "topic", options=redact_settings, checkpoint_every=show_duration)


class _Writing(OpenSink):
    def __init__(self, sink: Kafka, target: Target) -> None:
        self._sink, self._target = sink, target
        self._keys = target.key_names
        rows = target.definition if isinstance(target.definition, Rows) else None
        self._schema = decoder(target.definition).schema(sink.mode)
        self._header_columns = PANE_COLUMNS if rows is None else rows.added
        self._id = sink.transactional_id or ".".join(["penstock", *filter(None, [target.app]), target.delivery_name])
        self._settings = {**client_settings(servers_of(sink.servers), dict(sink.options)), "logger": _log}
        self._positions = Positions(self._settings, self._id, sink.timeout / 2)
        self._producer: Any = None
        self._is_fenced = False
        self._connect()

    # the topic

    def take(self, batch: Batch) -> None:
        if self._is_fenced:
            raise self._fenced()
        if self._producer is None:
            self._connect()
        if batch.last <= self.position:
            return  # a transaction of which we did not learn that it was committed
        try:
            self._producer.begin_transaction()
            for key, value, headers in self._messages(batch.rows):
                self._send(self._sink.topic, key, value, headers)
            self._commit(batch.last)
        except Exception as error:
            self._give_up(error)
            raise
        self.position = batch.last

    def _send(self, topic: str, key: bytes | None, value: bytes, headers: list[tuple[str, bytes]]) -> None:
        while True:
            try:
                self._producer.produce(topic, key=key, value=value, headers=headers)
                return
            except BufferError:
                self._producer.poll(0.1)  # more than the client holds at once: some must go out first

    def _commit(self, position: int) -> None:
        """Ends the transaction, with the position in it."""
        claim = self._positions.claim(position, birth_of(self._target.outbox))
        self._send(self._positions.topic, self._id.encode(), claim, [])
        self._producer.commit_transaction()

    def _messages(self, rows: Sequence[Row]) -> Iterator[tuple[bytes | None, bytes, list[tuple[str, bytes]]]]:
        """The keys, values and headers of rows that are not in the topic yet. Rows of a flow have no key."""
        frame = frame_of(rows, self._schema).filter(pl.col("pane") > self.position)
        if isinstance(self._target.definition, Rows):
            keys: Iterable[bytes | None] = repeat(None, frame.height)
        else:
            keys = _json(frame.select(list(self._keys))) if self._keys else repeat(b"{}", frame.height)
        texts = {"view": [self._target.view] * frame.height}
        texts |= {name: frame[name].cast(pl.String).to_list() for name in self._header_columns}
        headers = (
            [(name, text.encode()) for name, text in zip(texts, row, strict=True)]
            for row in zip(*texts.values(), strict=True)
        )
        return zip(keys, _json(frame.drop(self._header_columns)), headers, strict=True)

    # the transactions

    def _connect(self) -> None:
        """Ends what an earlier process has left open, shuts it out, and finds where it was."""
        kafka = load()
        producer = kafka.Producer(
            {
                "partitioner": "murmur2_random",  # as Java's clients do
                "linger.ms": 5,
                **self._settings,
                "transactional.id": self._id,
                "transaction.timeout.ms": int(self._sink.timeout * 1000),
            }
        )
        try:
            self._positions.prepare(self._sink.topic)
            self._target.check_owner()  # the next call shuts out other writers of this sink
            producer.init_transactions(self._sink.timeout)
            claim = self._positions.read()
            self._check(claim)
            self.position = 0 if claim is None else claim.pane
            self._producer = producer
            producer.begin_transaction()
            self._commit(self.position)
        except Exception as error:
            self._producer = None
            if isinstance(error, PenstockError):
                raise
            raise SinkError(
                f"cannot write to the topic '{self._sink.topic}' at {servers_of(self._sink.servers)}",
                detail=str(error),
                hint="check that Kafka runs there, and that transactional writes are allowed",
            ) from error

    def _check(self, claim: Claim | None) -> None:
        """Refuses a position that this store cannot have given."""
        if claim is None:
            return
        birth, newest = birth_of(self._target.outbox), newest_pane(self._target.outbox)
        if claim.pane > newest or (None not in (birth, claim.store) and birth != claim.store):
            raise SinkError(
                f"the topic '{self._sink.topic}' has panes of another store up to {claim.pane}, whose ids mean "
                "something else",
                detail=f"the transactional id is {self._id}, and our store has fired {newest} panes",
                hint="give the sink another name or another transactional_id, and readers another topic",
            )

    def _give_up(self, error: Exception) -> None:
        """After a failure: aborts the transaction; the next try begins with the position in Kafka."""
        producer, self._producer = self._producer, None
        if not _is_fatal(error):
            self._abort(producer)
        elif self._positions.is_taken():  # else Kafka aborted a transaction that took too long
            self._is_fenced = True
            raise self._fenced() from error

    def _abort(self, producer: Any) -> None:
        try:
            producer.abort_transaction(5.0)
        except Exception as error:
            _log.debug("a transaction of %s is left to Kafka to end: %s", self._id, error)

    def _fenced(self) -> SinkError:
        return SinkError(
            f"another process writes to the topic '{self._sink.topic}' as {self._id}",
            hint="stop one of the two, or give one of the sinks another transactional_id",
        )

    def close(self) -> None:
        self._producer = None


def _is_fatal(error: Exception) -> bool:
    """Whether a producer cannot be used any more. Its later calls report that by their code only."""
    if not isinstance(error, load().KafkaException):
        return False
    cause = error.args[0]
    return bool(cause.fatal() or cause.code() == cause._FATAL)


def _json(frame: pl.DataFrame) -> Iterator[bytes]:
    return (text.encode() for text in json_of(frame, _COMPACT))


def to_kafka(
    topic: str,
    *,
    servers: str | None = None,
    transactional_id: str | None = None,
    rows_per_transaction: int = _ROWS,
    options: Mapping[str, str] | None = None,
    timeout: float | str | timedelta = 60.0,
    checkpoint_every: str | timedelta = "2 minutes",
    mode: Mode = "panes",
) -> Kafka:
    """Panes as messages of a topic, keyed by the view's key, each once for readers of what is committed.

    Without `servers` the environment says where Kafka is, in PENSTOCK_KAFKA_SERVERS. `options` are those of `ps.kafka`:
    {"kafka.security.protocol": "SASL_SSL"}. `transactional_id` must be unique in the cluster; without
    one it is made of the app's and the sink's names. A transaction is aborted after `timeout` seconds, and so is a
    request that Kafka has not answered after half of them. With mode="realtime", `checkpoint_every` is how often the
    sink notes how far it is; what it sent since then comes again after a stop or a failure.
    """
    if not isinstance(topic, str) or not topic:
        raise DefinitionError(f"not a topic: {topic!r}", hint="for example ps.to_kafka('trending')")
    above_zero(rows_per_transaction, "rows_per_transaction")
    seconds = in_seconds(timeout)
    if not seconds > 0:
        raise DefinitionError(f"timeout must be above zero, and is {timeout!r}", hint="timeout='30 seconds'")
    kafka_options = tuple((name, str(value)) for name, value in (options or {}).items())
    every = duration(checkpoint_every)
    return Kafka(topic, servers, transactional_id, rows_per_transaction, kafka_options, seconds, every, mode=mode)
