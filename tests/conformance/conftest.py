"""One Spark session for all conformance tests: the truth that the model and the kernel are compared with."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING, NoReturn

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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
    if not os.environ.get("JAVA_HOME") and shutil.which("java") is None:
        _without("there is no Java")
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
