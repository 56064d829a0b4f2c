"""What the tests of questions share: Spark with the tables of `tests.query.rows`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.query.record import define

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def quick_spark(spark: SparkSession) -> Iterator[SparkSession]:
    """Spark without generated code, which takes longer to compile than these rows take to read."""
    options = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN",
               "spark.sql.shuffle.partitions": "1"}  # fmt: skip
    before = {name: spark.conf.get(name) for name in options}
    for name, value in options.items():
        spark.conf.set(name, value)
    define(spark)
    yield spark
    for name, value in before.items():
        assert value is not None
        spark.conf.set(name, value)
