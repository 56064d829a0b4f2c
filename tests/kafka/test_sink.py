"""Kafka as a sink: what messages hold, in which order, and that readers of what is committed see each pane once."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.dev.broker import Cluster
from penstock.sinks import Kafka as KafkaSink
from penstock.sinks import SinkError
from penstock.testing import TestStream
from tests.conftest import without
from tests.kafka.kill_app import STEPS
from tests.kafka.support import Kafka
from tests.sinks.conftest import feed  # noqa: F401
from tests.sinks.support import LIVE, STREAM, Fed, steady

ROOT = Path(__file__).parent.parent.parent
APP = Path(__file__).parent / "kill_app.py"
DEEP = os.environ.get("PENSTOCK_DEEP") == "1"


def headers(message: Any) -> dict[str, str]:
    return {name: value.decode() for name, value in message.headers()}


def ids(kafka: Kafka, topic: str) -> list[int]:
    """The panes in a topic, sorted: each partition has its own order."""
    return sorted(int(headers(message)["pane"]) for message in kafka.read(topic))


def sink(kafka: Kafka, topic: str, **options: Any) -> KafkaSink:
    return ps.to_kafka(topic, servers=kafka.servers, transactional_id=f"id-{topic}", **options)


def test_a_renamed_sink_brings_no_pane_twice(kafka, topic, feed):  # noqa: F811
    name, fed = topic(2), feed()
    fed.deliver_through_a_rename(lambda: ps.to_kafka(name, servers=kafka.servers))
    assert ids(kafka, name) == fed.ids()


def test_a_message_has_the_views_key_the_row_and_the_panes_identity(kafka, topic, feed):  # noqa: F811
    name = topic(3)
    fed = feed(script=TestStream(STREAM).add(("ä", 5, "12:00:01")).add(("ä", 7, "12:00:02"), (None, 1, "12:00:02")))
    fed.all()
    assert fed.deliver(out=sink(kafka, name)) == 4
    found = sorted(kafka.read(name), key=lambda message: int(headers(message)["pane"]))
    keys = [message.key().decode() for message in found]
    assert sorted(keys) == [*['{"k":"ä"}'] * 3, '{"k":null}']
    mine = [message for message, key in zip(found, keys, strict=True) if key != '{"k":null}']
    values = [json.loads(message.value()) for message in mine]
    window = {"window_start": "12:00:00", "window_end": "12:00:10"}
    assert {name: values[0].pop(name)[11:19] for name in window} == window
    assert values[0] == {"k": "ä", "n": 1, "total": 5}
    assert [(value["n"], value["total"]) for value in values] == [(1, 5), (1, 5), (2, 12)]
    told = [headers(message) for message in mine]
    assert [(each["kind"], each["index"], each["commit"]) for each in told] == [
        ("insert", "0", "1"),
        ("retract", "0", "2"),
        ("insert", "1", "2"),
    ]
    assert told[0] == {
        "view": "v", "kind": "insert", "timing": "early", "index": "0", "final": "false", "pane": "1", "commit": "1",
    }  # fmt: skip


def test_a_view_without_keys_has_messages_too(kafka, topic, feed):  # noqa: F811
    name, view = topic(), STREAM.window(ps.fixed("10 seconds")).agg(n=ps.count()).trigger(ps.each())
    fed = feed(view=view)
    fed.all()
    assert fed.deliver(out=sink(kafka, name)) == len(fed.ids()) > 0
    assert {message.key() for message in kafka.read(name)} == {b"{}"}
    assert ids(kafka, name) == fed.ids()


def test_the_panes_of_a_key_are_in_one_partition_in_their_order(kafka, topic, feed):  # noqa: F811
    name = topic(4)
    script = TestStream(STREAM)
    for number in range(12):
        script = script.add(*((f"k{key}", number, f"12:00:{number:02}") for key in range(20)))
    fed = feed(script=script)
    fed.all()
    fed.deliver(out=sink(kafka, name, rows_per_transaction=7))
    places: dict[bytes, set[int]] = {}
    order: dict[bytes, list[int]] = {}
    for message in kafka.read(name):
        places.setdefault(message.key(), set()).add(message.partition())
        order.setdefault(message.key(), []).append(int(headers(message)["pane"]))
    assert len(order) == 20
    assert all(len(partitions) == 1 for partitions in places.values())
    assert len(set.union(*places.values())) > 1
    assert all(panes == sorted(panes) for panes in order.values())
    assert sorted(pane for panes in order.values() for pane in panes) == fed.ids()


def test_modes(kafka, topic, feed):  # noqa: F811
    fed = feed(view=LIVE)
    fed.all()
    for mode in ("append", "update"):
        name = topic()
        fed.deliver(**{mode: sink(kafka, name, mode=mode)})
        found = kafka.read(name)
        assert {headers(message)["kind"] for message in found} == {"insert"}
        if mode == "append":
            assert {headers(message)["final"] for message in found} == {"true"}
    with pytest.raises(ps.DefinitionError, match="whole table"):
        ps.to_kafka("t", mode="complete")


def test_what_kafka_has_is_not_sent_again_when_the_store_does_not_know(kafka, topic, feed):  # noqa: F811
    name = topic()
    fed = feed()
    fed.step(10)
    forgetful = {"commit_positions": lambda positions, deliveries: None}
    delivery = fed.delivery(forgetful, out=sink(kafka, name))
    delivery.deliver()
    delivery.close()
    assert fed.store.position("out") == 0
    fed.all()
    fed.deliver(out=sink(kafka, name))
    assert ids(kafka, name) == fed.ids()
    assert fed.store.position("out") == fed.ids()[-1]


def test_a_newer_process_shuts_the_older_one_out(kafka, topic, feed):  # noqa: F811
    name = topic()
    fed = feed()
    fed.step(5)
    older = fed.delivery(out=sink(kafka, name))
    older.deliver()
    newer = fed.delivery(out=sink(kafka, name))
    fed.all()
    older.deliver()
    assert "another process writes" in str(older.failures["out"].error)
    newer.deliver()
    assert not newer.failures
    assert ids(kafka, name) == fed.ids()
    older.close()
    newer.close()


def test_a_topic_with_the_panes_of_another_store_is_refused(kafka, topic, feed):  # noqa: F811
    name = topic()
    fed = feed()
    fed.all()
    fed.deliver(out=sink(kafka, name))
    other = feed(name="other", script=steady(3))
    other.all()
    with pytest.raises(SinkError, match="panes of another store"):
        other.delivery(out=sink(kafka, name))


def test_a_broker_that_cannot_be_reached_is_named(feed):  # noqa: F811
    fed = feed()
    unreachable = ps.to_kafka("t", servers="127.0.0.1:1", timeout=2)
    with pytest.raises(SinkError, match=r"cannot write to the topic 't' at 127\.0\.0\.1:1"):
        fed.delivery(out=unreachable)


def test_tls_and_passwords(kafka, topic, feed, secure):  # noqa: F811
    name = topic()
    fed = feed()
    fed.all()
    options = dict(secure.options)
    fed.deliver(out=ps.to_kafka(name, servers=kafka.cluster.addresses("SASL_SSL"), options=options))
    assert ids(kafka, name) == fed.ids()


# Killed


@pytest.fixture
def fired(tmp_path: Path) -> list[int]:
    """A store with panes that nobody has; their ids."""
    fed = Fed(LIVE, tmp_path / "state", steady(40))
    fed.all()
    found = fed.ids()
    fed.store.close()
    return found


def start(root: Path, kafka: Kafka, topic: str, *step: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(APP), str(root), kafka.servers, topic, *step],
        stdout=subprocess.PIPE, stderr=(root / "stderr").open("a"), text=True,
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
    )  # fmt: skip


def finish(root: Path, kafka: Kafka, topic: str, fired: list[int]) -> None:
    said, _ = start(root, kafka, topic).communicate()
    assert said == "done\n", (root / "stderr").read_text()[-3000:]
    assert ids(kafka, topic) == fired


def test_killed_at_each_step_readers_see_each_pane_once(kafka, topic, tmp_path, fired):
    name = topic(2)
    for passes, step in enumerate(STEPS, start=2):
        process = start(tmp_path, kafka, name, step, str(passes))
        process.communicate()
        assert process.returncode == -signal.SIGKILL, (step, (tmp_path / "stderr").read_text()[-3000:])
    finish(tmp_path, kafka, name, fired)


@pytest.mark.skipif(not DEEP, reason="only with PENSTOCK_DEEP=1")
def test_killed_at_random_moments_readers_see_each_pane_once(kafka, topic, tmp_path, fired):
    name, chance = topic(2), random.Random(7)
    for _ in range(30):
        process = start(tmp_path, kafka, name)
        time.sleep(0.4 + chance.random() * 0.8)
        process.send_signal(signal.SIGKILL)
        process.communicate()
    finish(tmp_path, kafka, name, fired)


@pytest.mark.skipif(not DEEP, reason="only with PENSTOCK_DEEP=1")
def test_brokers_that_hang_die_and_come_back_cost_time_and_no_pane(tmp_path, feed):  # noqa: F811
    try:
        cluster = Cluster(tmp_path / "kafka", brokers=2).start()
    except ps.PenstockError as error:
        without(str(error))
    try:
        kafka = Kafka(cluster)
        kafka.create("out", 2, 2)
        fed = feed(script=steady(200))
        delivery = fed.delivery({"retry": (0.1, 1.0)}, out=sink(kafka, "out", rows_per_transaction=5))

        def deliver(commits: int) -> None:
            fed.step(commits)
            end = time.monotonic() + 240
            while delivery.positions["out"] < fed.ids()[-1]:
                assert time.monotonic() < end, delivery.failures
                delivery.deliver()

        deliver(20)
        for broker in cluster.brokers:
            broker.kill()
            deliver(20)
            cluster.start()
            deliver(20)
            broker.pause()
            deliver(20)
            broker.resume()
            deliver(20)
        for broker in cluster.brokers:
            broker.kill()
        fed.step(10)
        delivery.deliver()
        cluster.start()
        deliver(10)
        assert ids(kafka, "out") == fed.ids()
        delivery.close()
    finally:
        cluster.stop()
