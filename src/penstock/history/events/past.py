"""The past of a stream: its rows up to a commit, for Spark to read as one frame. A history has it, and so has a log."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Past(ABC):
    """The rows of one stream from some point on up to a commit. It stays the same however often it is read."""

    #: How many rows there are, where that is known before they are read.
    rows: int | None = None
    #: Whether these are rows that the stream has accepted, each id once; else they must pass admission again.
    accepted: bool = False

    @property
    def positions(self) -> Mapping[str, range] | None:
        """The positions of each file's rows, where the rows do not have them."""
        return None

    @abstractmethod
    def frame(self, spark: SparkSession, columns: Sequence[str]) -> DataFrame:
        """These columns of the stream, and where each row stood in its log: `__partition` int, `__offset` bigint.

        Of files, what `Files.read` gives instead.
        A history adds `__commit` bigint, the commit that brought the row.
        """
