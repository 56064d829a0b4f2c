"""What several test folders share: one Spark session for a test process, and loud skips."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, NoReturn

import pytest
from hypothesis import settings

from penstock.errors import PenstockError
from penstock.runtime.epoch.small import SMALL_EPOCH
from penstock.runtime.spark.jars import connector
from penstock.runtime.spark.java import ensure_java
from penstock.runtime.spark.session import spark_session
from tests.faults.java import make_ready, quick_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.postgres import Postgres

quick_java()

#: Random tests try the same examples each time, whatever these take. The deep run tries others, from the seed that
#: `make deep` prints.
DEEP = os.environ.get("PENSTOCK_DEEP") == "1"
settings.register_profile("penstock", derandomize=not DEEP, deadline=None, print_blob=True)
settings.load_profile("penstock")

#: Folders whose tests share what takes long to start, and the group that each belongs to. A group runs in one process;
#: all other tests of a file are a group too.
ON_SPARK = {"conformance": "spark", "control": "spark", "runtime": "runtime", "kafka": "kafka"}
#: Groups that take longest begin first.
LONG = ("runtime", "kill", "kafka", "spark", "cluster", "browser")


def pytest_sessionstart(session: pytest.Session) -> None:
    if hasattr(session.config, "workerinput") or not getattr(session.config.option, "numprocesses", None):
        return  # who runs a few tests does not wait for it
    make_ready()


@pytest.hookimpl(tryfirst=True)  # before xdist looks at the marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("deep") and os.environ.get("PENSTOCK_DEEP") != "1":
            item.add_marker(pytest.mark.skip(reason="for the deep run"))
        if item.get_closest_marker("xdist_group") is None:
            found = [ON_SPARK[part] for part in item.path.parts if part in ON_SPARK]
            item.add_marker(pytest.mark.xdist_group(found[0] if found else item.nodeid.partition("::")[0]))
    items.sort(key=_begins)


def _begins(item: pytest.Item) -> int:
    """When a test begins: those of groups that take longest come first, all others in their order."""
    mark = item.get_closest_marker("xdist_group")
    group = None if mark is None else mark.args[0]
    return LONG.index(group) if group in LONG else len(LONG)


def without(what: str) -> NoReturn:
    """Skips what this machine cannot run, loudly; CI demands everything."""
    reason = f"NOT TRIED ON SPARK: {what}. These tests prove nothing in this run."
    if os.environ.get("PENSTOCK_REQUIRE_ALL") == "1":
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


def need_spark() -> None:
    """Skips a test that starts Spark where there is none, or no Java for it."""
    try:
        import pyspark  # noqa: F401

        ensure_java()
    except ImportError:
        without("pyspark is not installed")
    except PenstockError as error:
        without(error.message)


def has_connector() -> bool:
    """Whether Spark's Kafka connector can be had: it must be there when the shared session starts."""
    try:
        connector()
    except PenstockError:
        return False
    return True


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Spark as Penstock runs it: ANSI mode (the default of Spark 4), session time zone UTC."""
    need_spark()
    host = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1", "spark.default.parallelism": "2"}
    often = {"spark.sql.streaming.pollingDelay": "10ms"}  # tests wait for what is idle, all the time
    in_tasks = {SMALL_EPOCH: "0"}  # else small test data would never reach a task
    session = spark_session("penstock-tests", master="local[2]", kafka=has_connector(), options=host | often | in_tasks)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A PostgreSQL server that the tests of a process share; each makes a database of its own in it."""
    from tests.postgres import Postgres, find_postgres

    if find_postgres() is None:
        without("there is no PostgreSQL on this machine")
    server = Postgres().start()
    yield server
    server.close()
