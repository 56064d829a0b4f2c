"""What a log is to the engine: something that Spark can read as a stream, with the text of rows it could not parse."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING

import polars as pl

from penstock.model.types import Schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: The column with the raw text of a row that could not be parsed; null where it could.
MALFORMED = "__malformed"


class Log(ABC):
    """A partitioned, replayable source of events."""

    @abstractmethod
    def read(self, spark: SparkSession, schema: Schema, columns: Sequence[str]) -> DataFrame:
        """The log as a stream of these columns of the schema, and `MALFORMED` where rows can be malformed."""

    def decode(self, rows: pl.DataFrame, schema: Schema) -> pl.DataFrame:
        """What a task does first with the rows that `read` gave: nothing, for most logs."""
        return rows
