"""What a log is to the engine: something that Spark can read as a stream, with the text of rows it could not parse."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias

import polars as pl
import pyarrow as pa

from penstock.model.types import Schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: The column with the raw text of a row that could not be parsed; null where it could.
MALFORMED = "__malformed"
#: Why it could not be parsed, in a log that knows more than that it does not fit the schema.
REASON = "__malformed_because"
#: What the text of a row that is not taken is, where it is not the row itself: `FILE`, the path of a file that cannot
#: be read; `PART`, a part of a line, or its bytes in another form.
EXTENT = "__extent"
FILE, PART = "file", "part"
#: Whether a row that is not taken came too late, in a log that tells.
LATE = "__late"
#: The file that a row comes from, and its position in that file, in a source of files: of a line its first byte.
PATH, ROW = "__path", "__file_row"
#: When a row arrived at its source, in milliseconds since 1970, in a source that tells. A file tells by its path.
ARRIVED = "__arrived"
#: The number of a slice of an epoch's files, which a task reads.
SLICE = "__slice"

#: The rows of an epoch for these columns, if they are within a limit of bytes and the driver can read them.
ReadSmall: TypeAlias = Callable[[Schema, int], pa.Table | None]


class Folder(Protocol):
    """A folder of small files, on a disk or elsewhere."""

    def __truediv__(self, name: str, /) -> Folder: ...
    def read_text(self) -> str: ...


class Follower:
    """Goes along with the epochs of a log, on the driver. Most logs have nothing to do there.

    `epoch_size` is the size of the epoch that is being read, in the unit of the log's limits, where that is known.
    """

    #: Whether the driver can read small epochs itself.
    reads_small: ClassVar[bool] = False
    epoch_size: int | None = None

    def reading(self, offsets: str) -> tuple[Collection[int], Collection[int]] | None:
        """An epoch up to these offsets is read: the log's partitions, and those that had nothing more to read.

        None where a log has no partitions of its own.
        """
        return None

    def positions(self, before: str | None, offsets: str, space: range) -> Mapping[str, range] | None:
        """The positions of each file's rows in the epoch between two offsets, out of the epoch's positions.

        None where rows have positions of their own, or get them from the task that reads them.
        """
        return None

    def small_epoch(
        self, before: str | None, offsets: str, positions: Mapping[str, range] | None, schema: Schema, most: int
    ) -> pa.Table | None:
        """The rows of the epoch between two offsets, as tasks get them, if these are within a limit of bytes.

        None if there are more, or Spark must read them. `schema` has the columns that are read.
        """
        return None

    def committed(self, offsets: str) -> None:
        """All up to these offsets is committed to the store."""
        return

    def close(self) -> None:
        """Lets go of what was opened."""
        return


class Source(ABC):
    """A partitioned, replayable source of events."""

    #: Whether Spark needs its Kafka connector to read it.
    needs_kafka: ClassVar[bool] = False
    #: Whether it can be read again from an offset. Each run of one that cannot begins with a new checkpoint.
    replayable: ClassVar[bool] = True
    #: Whether the source itself takes another limit while it is read. Spark asks the others with it.
    adjusts: ClassVar[bool] = False

    @abstractmethod
    def read(self, spark: SparkSession, schema: Schema, columns: Sequence[str]) -> DataFrame:
        """The log as a stream of these columns of the schema, and `MALFORMED` where rows can be malformed."""

    def decodes(self, schema: Schema) -> bool:
        """Whether rows that were read with these columns must go through `frames`."""
        return type(self).decode is not Source.decode

    def decode(self, rows: pl.DataFrame, schema: Schema) -> pl.DataFrame:
        """What a task does first with the rows that `read` gave, for these columns: nothing, for most logs."""
        return rows

    def frames(self, rows: pl.DataFrame, schema: Schema) -> Iterator[pl.DataFrame]:
        """The same where one row may stand for many, as a file's name does for its lines."""
        yield self.decode(rows, schema)

    def check(self, schema: Schema) -> None:
        """Refuses a schema whose columns the log cannot give."""
        return

    def check_answer(self) -> None:
        """Refuses a source of which no server answers, soon and with its address. It is called before Spark starts."""
        return

    def placed(self, directory: Path, stream: str, schema: Schema) -> Source:
        """The log as the run of an app in a directory reads it for a stream: the same, for most logs."""
        return self

    @property
    def unit(self) -> str | None:
        """What limits of its epochs are counted in, events or bytes; None where a run sets no limits."""
        return None

    def limited(self, limit: int) -> Source:
        """The same log with a limit on what an epoch takes."""
        raise NotImplementedError(f"{self!r} has no limits")

    def adjust(self, limit: int) -> None:
        """Puts another limit into force for the query that reads it now."""
        raise NotImplementedError(f"{self!r} does not take limits")

    def behind(self, offsets: str, latest: Any) -> int | None:
        """How many events a log that Spark has seen up to its latest offset holds beyond these."""
        return None

    def follow(self, checkpoint: Folder) -> Follower:
        """Begins to go along with the epochs of one run, whose query has its checkpoint there."""
        return Follower()
