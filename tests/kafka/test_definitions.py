"""Kafka logs and sinks as definitions: what they print, what they refuse, one set of options for all clients."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import penstock as ps
from penstock.errors import DefinitionError, PenstockError
from penstock.kafka_client import client_settings
from penstock.model.time import instant
from penstock.model.watermarks import Observation, PartitionTimes, Tracker
from penstock.runtime.spark.jars import Artifact, fetched


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ps.kafka(), "takes topics or a pattern"),
        (lambda: ps.kafka("a", pattern="b"), "takes topics or a pattern"),
        (lambda: ps.kafka("a,b"), "'a,b' cannot be a topic"),
        (lambda: ps.kafka(["a", "a"]), "appears twice"),
        (lambda: ps.kafka("a", format="jsn"), "did you mean 'json'"),
        (lambda: ps.kafka("a", format="avro"), "takes avro_schema="),
        (lambda: ps.kafka("a", registry="http://r"), "takes avro_schema="),
        (lambda: ps.kafka("a", format="avro", avro_schema="missing.avsc"), "cannot read the Avro schema"),
        (lambda: ps.kafka("a", start="yesterday"), "not a position to start from"),
        (lambda: ps.kafka("a", start={"a": 5}), "not offsets by topic and partition"),
        (lambda: ps.kafka("a", events_per_epoch=0), "must be above zero"),
        (lambda: ps.kafka("a", options={"startingOffsets": "latest"}), "is set by start"),
        (lambda: ps.to_kafka(""), "not a topic"),
        (lambda: ps.to_kafka("a", rows_per_transaction=0), "above zero"),
        (lambda: ps.to_kafka("a", checkpoint_every="1 minute"), "only for mode='realtime', and the mode is 'panes'"),
        (
            lambda: ps.to_kafka("a", checkpoint_every="1 second", mode="realtime"),
            "at least 5 seconds, and is '1 second'",
        ),
    ],
)
def test_what_cannot_mean_anything_is_refused(make, message):
    with pytest.raises(DefinitionError, match=message):
        make()


@pytest.mark.parametrize(
    ("log", "schema", "message"),
    [
        (ps.kafka("a", metadata={"who": "key"}), "k string", "which the schema does not have"),
        (ps.kafka("a", metadata={"k": "kye"}), "k string", "did you mean 'key'"),
        (ps.kafka("a", metadata={"k": "partition"}), "k string", "whose type is int"),
        (ps.kafka("a", format="raw"), "k string, v string", "a raw value is one column"),
    ],
)
def test_a_schema_that_the_messages_cannot_give_is_refused_when_the_stream_is_made(log, schema, message):
    with pytest.raises(DefinitionError, match=message):
        ps.App("test").stream("s", log, schema=schema)


def test_a_tombstone_without_a_column_for_its_key_is_refused():
    log = ps.kafka("prices", metadata={"since": "timestamp", "deleted": "tombstone"})
    with pytest.raises(DefinitionError, match="no column has the key"):
        ps.App("shop").stream("prices", log, schema="item string, since timestamp, deleted boolean")


def test_a_log_prints_as_its_constructor_without_its_secrets(tmp_path: Path):
    (tmp_path / "a.avsc").write_text(json.dumps({"type": "record", "name": "A", "fields": []}))
    logs = [
        ps.kafka("a"),
        ps.kafka(["a", "b"], servers="x:1,y:2", start="latest", group="g", events_per_epoch=5),
        ps.kafka(pattern="a.*", start={"a": {0: 1, 1: -2}}, format="csv", delimiter="\t"),
        ps.kafka("a", start="2026-01-01T00:00:00Z", format="avro", avro_schema=tmp_path / "a.avsc"),
        ps.kafka("a", metadata={"k": "key"}, options={"kafka.security.protocol": "SSL", "failOnDataLoss": "false"}),
    ]
    for log in logs:
        assert eval(repr(log), {"ps": ps}) == log
        assert hash(log) is not None
    secret = ps.kafka("a", format="avro", registry="http://me:hidden@r", options={"kafka.sasl.jaas.config": "hidden"})
    assert "hidden" not in repr(secret)
    sink = ps.to_kafka("a", servers="x:1", rows_per_transaction=5, mode="update")
    assert eval(repr(sink), {"ps": ps}) == sink
    lane = ps.to_kafka("a", checkpoint_every="90 seconds", mode="realtime")
    assert repr(lane) == "ps.to_kafka('a', checkpoint_every='90 seconds', mode='realtime')"
    assert eval(repr(lane), {"ps": ps}) == lane
    assert "checkpoint_every" not in repr(ps.to_kafka("a", mode="realtime"))


def test_without_servers_the_environment_says_where_kafka_is(monkeypatch):
    monkeypatch.delenv("PENSTOCK_KAFKA_SERVERS", raising=False)
    assert ps.kafka("a").bootstrap == "localhost:9092"
    monkeypatch.setenv("PENSTOCK_KAFKA_SERVERS", "b:1")
    assert ps.kafka("a").settings([])["kafka.bootstrap.servers"] == "b:1"
    assert ps.kafka("a", servers="c:1").bootstrap == "c:1"


def test_options_of_javas_clients_serve_the_others_too():
    options = {
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "SCRAM-SHA-512",
        "kafka.sasl.jaas.config": 'x.ScramLoginModule required username="me" password="my \'word";',
        "kafka.ssl.keystore.type": "PEM",
        "kafka.ssl.keystore.location": "me.pem",
        "minPartitions": "4",
    }
    assert ps.kafka("a", options=options).settings([]).items() >= options.items()
    assert client_settings("b:1", options) == {
        "bootstrap.servers": "b:1",
        "security.protocol": "SASL_SSL",
        "sasl.mechanisms": "SCRAM-SHA-512",
        "sasl.username": "me",
        "sasl.password": "my 'word",
        "ssl.certificate.location": "me.pem",
        "ssl.key.location": "me.pem",
    }
    with pytest.raises(DefinitionError, match="only Java reads"):
        client_settings("b:1", {"kafka.ssl.truststore.location": "ca.jks"})


def test_where_jars_cannot_be_had_the_message_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setenv("PENSTOCK_CACHE", str(tmp_path))
    monkeypatch.setenv("PATH", "")
    with pytest.raises(PenstockError, match=r"cannot fetch g:a:1: Maven is not installed\n  hint: install Maven"):
        fetched("x", [Artifact("g", "a", "1")])
    maven = tmp_path / "mvn"
    maven.write_text("#!/bin/sh\necho '[ERROR] no such thing'\nexit 1\n")
    maven.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(PenstockError, match=r"no such thing(.|\n)*put their jars"):
        fetched("x", [Artifact("g", "a", "1")])
    assert not (tmp_path / "x").exists()


def test_a_partition_that_was_read_to_its_end_is_idle_after_a_while_also_when_others_have_more():
    tracker, minute = Tracker(ps.bounded("0 seconds", idle="1 minute")), 60_000_000
    begin = instant("2026-05-01T12:00:00Z")
    tracker.know({1, 2}, set(), begin)
    tracker.advance(Observation({1: PartitionTimes(begin)}), now=begin, caught_up=False)
    assert tracker.watermark < begin  # the other may still hold anything
    tracker.know({1, 2}, set(), begin + minute)
    tracker.advance(Observation({1: PartitionTimes(begin + 1)}), now=begin + minute, caught_up=False)
    assert tracker.watermark < begin  # it may have been throttled
    tracker.know({1, 2}, {2}, begin + minute)
    tracker.advance(Observation({1: PartitionTimes(begin + 2)}), now=begin + minute, caught_up=False)
    assert tracker.watermark == begin + 2
