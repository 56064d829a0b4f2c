"""Brokers that die, hang and come back while an app reads from them and writes to them: it goes on by itself.

Each message counts once, and a reader of what is committed sees each pane once, in order.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import penstock as ps
from penstock.dev.broker import Cluster
from penstock.errors import PenstockError
from penstock.model.types import Schema
from penstock.runtime.errors import RunError
from penstock.runtime.spark.jars import connector
from penstock.sources.kafka.columns import VALUE
from penstock.sources.kafka.direct import DirectReader
from tests.conftest import without
from tests.faults.brokers import KafkaRig
from tests.faults.support import until
from tests.kafka.support import Kafka

pytestmark = pytest.mark.xdist_group("kafka")
ROUNDS = 5 if os.environ.get("PENSTOCK_DEEP") == "1" else 1


def started(directory: Path, brokers: int) -> Cluster:
    try:
        connector()
        return Cluster(directory, brokers=brokers).start()
    except PenstockError as error:
        without(str(error))


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    cluster = started(tmp_path_factory.mktemp("one"), 1)
    yield cluster
    cluster.stop()


@pytest.fixture
def two(tmp_path: Path) -> Iterator[Cluster]:
    cluster = started(tmp_path / "kafka", 2)
    yield cluster
    cluster.stop()


def test_a_broker_that_is_killed_or_hangs_and_comes_back(spark, tmp_path, one, caplog):
    (broker,) = one.brokers
    with KafkaRig(spark, tmp_path, one, events=400 * ROUNDS) as rig:
        run = rig.start()
        rig.write()
        rig.current()
        for _ in range(ROUNDS):
            # killed in the middle of an epoch
            done = rig.at_the_next_epoch(broker.kill)
            rig.write()
            until(lambda done=done: done, run)
            rig.write()
            rig.shows()
            one.start()
            rig.current()
            # killed in the middle of a sink's transaction
            done = rig.in_the_next_transaction(broker.kill)
            rig.write()
            until(lambda done=done: done, run)
            one.start()
            rig.current()
            # hangs for longer than anyone waits for it, in the middle of a transaction
            done = rig.in_the_next_transaction(broker.pause)
            rig.write()
            until(lambda done=done: done, run)
            rig.shows()
            rig.shows(sink=True)
            rig.write()
            broker.resume()
            rig.current()
            until(lambda: not run.faults and not run.delivery.failures, run)
        rig.audit()
    assert "the stream 'events' failed (1 in a row), next try in 0.5 s: " in caplog.text
    assert "the stream 'events' works again" in caplog.text


def test_a_broker_that_stays_away_ends_the_app_and_it_goes_on_at_the_next_start(spark, tmp_path, one):
    with KafkaRig(spark, tmp_path, one) as rig:
        run = rig.start(patience=1.0)
        rig.write()
        rig.current()
        one.brokers[0].kill()
        with pytest.raises(RunError, match=r"the stream 'events' has failed for 1 s, \d+ times: .*") as error:
            until(lambda: False, run)
        assert "goes on where the commits ended" in str(error.value)
        rig.stop()
        one.start()
        rig.start()
        rig.write()
        rig.current()
        rig.audit()


def test_the_leader_of_a_partition_stops_while_events_flow(spark, tmp_path, two):
    with KafkaRig(spark, tmp_path, two, copies=2) as rig:
        rig.start()
        rig.write()
        rig.current()
        leader = rig.leader()
        leader.kill()
        for _ in range(3):
            rig.write()
        rig.current()
        assert rig.leader() is not leader
        two.start()
        rig.write()
        rig.current()
        rig.audit()


def read_small(reader: DirectReader, name: str, start: int, end: int) -> list[str] | None:
    """The messages of an epoch between two offsets that the driver read; None where Spark has to read it."""
    span = (json.dumps({name: {"0": offset}}) for offset in (start, end))
    rows: pa.Table | None = reader.read(*span, Schema.parse("v int"), 1 << 20)
    return None if rows is None else [value.decode() for value in rows[VALUE].to_pylist()]


@pytest.mark.parametrize("fault", ["is killed", "hangs"])
def test_small_epochs_are_left_to_spark_while_a_broker_does_not_answer(one, fault):
    (broker,) = one.brokers
    kafka, name = Kafka(one), f"small-{fault.replace(' ', '-')}"
    kafka.create(name)
    kafka.put(name, "0", "1", "2")
    reader = DirectReader(ps.kafka(name, servers=one.servers), patience=0.5)
    assert read_small(reader, name, 0, 3) == ["0", "1", "2"]
    broker.kill() if fault == "is killed" else broker.pause()
    try:
        assert read_small(reader, name, 3, 5) is None
        assert read_small(reader, name, 3, 5) is None  # at once: the driver does not try again yet
    finally:
        one.start() if fault == "is killed" else broker.resume()
    kafka.put(name, "3", "4", "5")
    rows: list[list[str] | None] = []
    until(lambda: rows.append(read_small(reader, name, 3, 5)) or rows[-1])
    assert rows[-1] == ["3", "4"]  # no message of the failed tries is there once more
    assert read_small(reader, name, 5, 6) == ["5"]
    reader.close()
