"""One Spark session for all conformance tests: the truth that the model and the kernel are compared with."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, NoReturn

import pytest

from penstock.engine.session import ensure_java
from penstock.errors import PenstockError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All in one process, where tests run in several: they share one session."""
    for item in items:
        if "conformance" in item.path.parts:
            item.add_marker(pytest.mark.xdist_group("spark"))


def _without(what: str) -> NoReturn:
    reason = f"NOT COMPARED WITH SPARK: {what}. The conformance tests prove nothing in this run."
    if os.environ.get("PENSTOCK_REQUIRE_ALL") == "1":
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Spark as Penstock runs it: ANSI mode (the default of Spark 4), session time zone UTC."""
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        _without("pyspark is not installed")
    try:
        ensure_java()
    except PenstockError as error:
        _without(error.message)
    session = (
        SparkSession.builder.master("local[2]")
        .appName("penstock-conformance")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.default.parallelism", "2")
        .config("spark.driver.memory", "2g")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()
