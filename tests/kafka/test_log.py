"""Kafka as a log, each option against a real broker: where to begin, topics, messages' other parts, bad values."""

from __future__ import annotations

import time

import pytest
from confluent_kafka import Producer

import penstock as ps
from penstock.sources.kafka.columns import partition_number
from tests.kafka.support import DEAD, asked, at, counting, running

SCHEMA = "k string, v int, at timestamp"


def event(k: str, seconds: float = 1, v: int = 1) -> dict[str, object]:
    return {"k": k, "v": v, "at": at(seconds)}


def test_values_are_json_and_what_is_not_is_a_dead_letter_with_its_text(kafka, topic, state, spark):
    name = topic(2)
    kafka.put(name, event("a"), "no json", {"k": "a", "v": "many", "at": at(1)}, "[1]", "", event("b"))
    kafka.put(name, None, partition=1, key="gone")
    kafka.put(name, b"\xff\xfe", event("b"), partition=1)
    app, stream = counting(ps.kafka(name, servers=kafka.servers))
    app.view("sums", stream.group_by("k").agg(v=ps.sum("v")))
    with running(app, state, spark) as run:
        assert asked(run, "SELECT k, n FROM counts ORDER BY k") == [("a", 1), ("b", 2)]
        schema = "the row does not fit the stream's schema"
        assert asked(run, DEAD) == [
            (schema, "no json", 0, 1),
            (schema, '{"k": "a", "v": "many", "at": "2026-05-01T12:00:01Z"}', 0, 2),
            (schema, "[1]", 0, 3),
            (schema, "", 0, 4),
            ("the message has no value, only this key: a tombstone", "gone", 1, 0),
            ("the value is not text in UTF-8", "\\xff\\xfe", 1, 1),
        ]


def test_a_first_run_begins_at_the_earliest_at_the_latest_at_offsets_or_at_a_time(kafka, topic, state, spark):
    name = topic(2)
    kafka.put(name, event("old"), event("old"), timestamp=1_700_000_000_000)
    kafka.put(name, event("new"), timestamp=1_700_000_100_000)
    kafka.put(name, event("old"), partition=1, timestamp=1_700_000_000_000)
    app = ps.App("test")
    starts = {
        "first": "earliest",
        "last": "latest",
        "offsets": {name: {0: 1, 1: 0}},
        "moment": "2023-11-14T22:13:50Z",  # ten seconds after the old ones
    }
    for stream, start in starts.items():
        log = ps.kafka(name, servers=kafka.servers, start=start)
        made = app.stream(stream, log, schema=SCHEMA)
        app.view(f"by_{stream}", made.group_by("k").agg(n=ps.count()))
    with running(app, state, spark) as run:
        kafka.put(name, event("newest"), partition=1)
        run.catch_up()
        found = {stream: dict(asked(run, f"SELECT k, n FROM by_{stream}")) for stream in starts}
    assert found == {
        "first": {"old": 3, "new": 1, "newest": 1},
        "last": {"newest": 1},
        "offsets": {"old": 2, "new": 1, "newest": 1},
        "moment": {"new": 1, "newest": 1},
    }


def test_topics_by_list_and_by_pattern_have_partitions_of_their_own(kafka, topic, state, spark):
    names = [topic(2, name="many"), topic(1, name="many"), topic(1, name="other")]
    for name in names:
        kafka.put(name, {**event("x"), "id": name}, {**event("x"), "id": "same"})
    app = ps.App("test")
    logs = {
        "listed": ps.kafka(names, servers=kafka.servers),
        "fitting": ps.kafka(pattern=f"({names[0]}|{names[1]})", servers=kafka.servers),
    }
    for stream, log in logs.items():
        made = app.stream(stream, log, schema=f"{SCHEMA}, id string", id="id")
        app.view(f"by_{stream}", made.group_by("id").agg(n=ps.count()))
    with running(app, state, spark) as run:
        assert asked(run, "SELECT id, n FROM by_listed ORDER BY id") == [*((name, 1) for name in names), ("same", 1)]
        assert asked(run, "SELECT id, n FROM by_fitting ORDER BY id") == [
            *((name, 1) for name in names[:2]),
            ("same", 1),
        ]
        doubles = asked(run, "SELECT partition, offset FROM __refused WHERE stream = 'listed' AND kind = 'duplicate'")
    known = {(partition_number(name, 0), 1) for name in names}
    assert len(doubles) == 2
    assert set(doubles) < known


def test_key_headers_partition_offset_time_and_topic_can_be_columns(kafka, topic, state, spark):
    name = topic(2)
    headers = [("trace", b"t1"), ("other", b"o"), ("trace", b"t2")]
    kafka.put(name, event("a"), partition=1, key=b"ann", headers=headers, timestamp=1_700_000_000_123)
    kafka.put(name, event("a"), partition=1, timestamp=1_700_000_000_123)
    parts = {
        "who": "key", "place": "partition", "n": "offset", "sent": "timestamp", "origin": "topic",
        "trace": "header:trace", "raw": "header:other", "all_headers": "headers",
    }  # fmt: skip
    schema = f"{SCHEMA}, who string, place int, n bigint, sent timestamp, origin string, trace string, raw binary"
    log = ps.kafka(name, servers=kafka.servers, metadata=parts)
    app = ps.App("test")
    stream = app.stream("events", log, schema=f"{schema}, all_headers string", event_time="sent")
    columns = ["k", *parts]
    app.view("rows", stream.group_by(*columns).agg(seen=ps.count()))
    with running(app, state, spark) as run:
        found = asked(run, f"SELECT {', '.join(columns)} FROM rows ORDER BY n")
    shown = '[{"key":"trace","value":"t1"},{"key":"other","value":"o"},{"key":"trace","value":"t2"}]'
    sent = "2023-11-14 22:13:20.123"
    assert [tuple(str(v) if c == "sent" else v for c, v in zip(columns, row, strict=True)) for row in found] == [
        ("a", "ann", 1, 0, found[0][4], name, "t2", b"o", shown),
        ("a", None, 1, 1, found[0][4], name, None, None, None),
    ]
    assert str(found[0][4]).startswith(sent)


def test_what_a_transaction_took_back_is_not_read(kafka, topic, state, spark):
    name = topic()
    producer = Producer({"bootstrap.servers": kafka.servers, "transactional.id": f"{name}-writer"})
    producer.init_transactions()
    for k, end in (("kept", producer.commit_transaction), ("aborted", producer.abort_transaction)):
        producer.begin_transaction()
        producer.produce(name, value=f'{{"k": "{k}", "at": "{at(1)}"}}')
        producer.flush()
        end()
    app, _ = counting(ps.kafka(name, servers=kafka.servers))
    with running(app, state, spark) as run:
        assert asked(run, "SELECT k, n FROM counts") == [("kept", 1)]


def test_after_a_restart_it_goes_on_where_it_was_and_a_group_shows_how_far_that_is(kafka, topic, state, spark):
    name = topic(3)
    for partition in range(2):
        kafka.put(name, *[event("a")] * 5, partition=partition)
    log = ps.kafka(name, servers=kafka.servers, events_per_epoch=4, group=f"{name}-lag")
    app, _ = counting(log)
    with running(app, state, spark) as run:
        epochs = asked(run, "SELECT count(*) FROM __commits WHERE kind = 'epoch'")[0][0]
        assert epochs >= 3
        assert asked(run, "SELECT k, n FROM counts") == [("a", 10)]
    assert kafka.group(f"{name}-lag", name, 3) == {0: 5, 1: 5, 2: 0}
    kafka.put(name, event("a"), event("b"))
    app, _ = counting(log)
    with running(app, state, spark) as run:
        assert asked(run, "SELECT k, n FROM counts ORDER BY k") == [("a", 11), ("b", 1)]
        waited = time.monotonic() + 30
        while kafka.group(f"{name}-lag", name, 3)[0] != 7:
            assert time.monotonic() < waited, "the group does not follow"


def test_tls_and_passwords_reach_spark_and_the_group(kafka, topic, state, spark, secure):
    name = topic()
    kafka.put(name, event("a"))
    log = ps.kafka(name, servers=kafka.cluster.addresses("SASL_SSL"), options=secure.options, group=f"{name}-lag")
    assert log.settings([])["kafka.security.protocol"] == "SASL_SSL"
    assert "not-a-secret" not in repr(log)
    app, _ = counting(log)
    with running(app, state, spark) as run:
        assert asked(run, "SELECT k, n FROM counts") == [("a", 1)]
    assert kafka.group(f"{name}-lag", name, 1) == {0: 1}


def test_a_column_that_no_view_reads_may_be_anything(kafka, topic, state, spark):
    name = topic()
    kafka.put(name, {"k": "a", "v": "no number"}, "no json")
    app = ps.App("test")
    stream = app.stream("events", ps.kafka(name, servers=kafka.servers), schema="k string, v int", keep="none")
    app.view("by_k", stream.group_by("k").agg(n=ps.count()))
    with running(app, state, spark) as run:
        assert asked(run, "SELECT k, n FROM by_k") == [("a", 1)]
        assert [row for _, row, _, _ in asked(run, DEAD)] == ["no json"]


def test_where_the_session_has_no_connector_the_message_says_what_to_do(kafka):
    class Reader:
        def format(self, _: str) -> Reader:
            return self

        def options(self, **_: str) -> Reader:
            return self

        def load(self) -> None:
            raise RuntimeError("Failed to find data source: kafka. Please deploy the application as per …")

    class Session:
        readStream = Reader()

    from penstock.model.types import Schema

    with pytest.raises(ps.PenstockError, match=r"without Spark's Kafka connector(.|\n)*spark\.jars"):
        ps.kafka("t").read(Session(), Schema.parse("k string"), ["k"])  # type: ignore[arg-type]
