"""One real Kafka broker for all tests of the folder, with a plain listener and one with TLS and passwords."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from penstock.dev.broker import Cluster
from penstock.errors import PenstockError
from penstock.runtime.spark.jars import connector
from tests.conftest import without
from tests.kafka.support import Kafka, Secure


@pytest.fixture(scope="session")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Secure:
    return Secure(tmp_path_factory.mktemp("secure"))


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory, secure: Secure) -> Iterator[Cluster]:
    try:
        connector()
        started = Cluster(tmp_path_factory.mktemp("kafka"), listeners={"SASL_SSL": secure.listener}).start()
    except PenstockError as error:
        without(str(error))
    yield started
    started.stop()


@pytest.fixture
def kafka(cluster: Cluster) -> Kafka:
    return Kafka(cluster)


_NUMBERS = itertools.count(1)


@pytest.fixture
def topic(kafka: Kafka, request: pytest.FixtureRequest) -> Callable[..., str]:
    """Makes topics with names that no other test has."""

    def make(partitions: int = 1, name: str = "t") -> str:
        chosen = f"{name}-{next(_NUMBERS):03}"  # they sort as they come
        kafka.create(chosen, partitions)
        return chosen

    return make


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"
