"""Events that come over HTTP: `POST /api/v1/streams/{name}`. What is accepted is durable, and can be read again.

>>> http("posts")
ps.http('posts')

The server writes them to the inbox of that name in the app's directory; a run reads its segments.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from penstock.errors import DefinitionError
from penstock.model.naming import valid_name
from penstock.model.time import SECOND, positive, show_duration
from penstock.model.types import Schema
from penstock.sources.base import ARRIVED, MALFORMED, PATH, REASON, Folder, Follower, Source
from penstock.sources.formats import json_lines, parquet
from penstock.sources.http.inbox import FOLDER, declare, segment, sweep

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_HOUR: Final = 3600 * SECOND
#: Seconds between two looks for segments to sweep.
_EACH: Final = 60.0
#: How many segments the driver reads itself, at most.
_FEW: Final = 64


def takes(kind: str) -> bool:
    """Whether events over HTTP can have columns of this type."""
    return json_lines.reads(Schema((("value", kind),)))


@dataclass(frozen=True, repr=False)
class Http(Source):
    """The inbox of a name. Segments that are committed are swept when they are older than `retention`, in µs."""

    name: str
    retention: int = _HOUR
    folder: str | None = None  # where the run has it

    def placed(self, directory: Path, stream: str, schema: Schema) -> Http:
        """The same in an app's directory, where the inbox is made for the stream."""
        folder = (directory / FOLDER / self.name).absolute()
        declare(folder, stream, schema)
        return replace(self, folder=str(folder))

    def check(self, schema: Schema) -> None:
        for name, kind in schema:
            if not takes(kind):
                raise DefinitionError(
                    f"events over HTTP have no columns of type {kind}: '{name}'",
                    hint="send it as a string, and parse it in a transform",
                )

    def read(self, spark: SparkSession, schema: Schema, columns: Sequence[str]) -> DataFrame:
        from penstock.sources.http.inbox_source import Segments

        if self.folder is None:
            raise DefinitionError(f"{self!r} is read by a running app only", hint="run it: app.run(directory)")
        spark.dataSource.register(Segments)
        source = spark.readStream.format(Segments.name()).option("inbox", self.name)
        return source.option("folder", self.folder).load()

    def frames(self, rows: pl.DataFrame, schema: Schema) -> Iterator[pl.DataFrame]:
        for path in rows["__path"]:
            names = [name for name in (MALFORMED, REASON) if name in pq.read_schema(path).names]
            arrived = pl.lit(Path(path).stat().st_mtime_ns // 1_000_000).alias(ARRIVED)
            bad = pl.read_parquet(path, columns=names)
            if not schema.names:
                yield bad.with_columns(arrived)
                continue
            at = 0
            for frame in parquet.read_file(path, schema):
                yield frame.with_columns(bad.slice(at, frame.height)).with_columns(arrived)
                at += frame.height

    def decodes(self, schema: Schema) -> bool:
        return True

    def follow(self, checkpoint: Folder) -> Follower:
        return Follower() if self.folder is None else _InboxFollower(Path(self.folder), self.retention / SECOND)

    def __repr__(self) -> str:
        retention = "" if self.retention == _HOUR else f", retention={show_duration(self.retention)!r}"
        return f"ps.http({self.name!r}{retention})"


class _InboxFollower(Follower):
    """Finds the segments of an epoch, and removes those that are committed, some at a time."""

    reads_small: ClassVar[bool] = True

    def __init__(self, folder: Path, keep: float) -> None:
        self._folder, self._keep, self._due = folder, keep, 0.0

    def small_epoch(
        self, before: str | None, offsets: str, positions: Mapping[str, range] | None, schema: Schema, most: int
    ) -> pa.Table | None:
        """Tasks read the segments, Spark has only their paths: few of them are one task's."""
        if before is None:
            return None
        numbers = range(int(json.loads(before)["number"]) + 1, int(json.loads(offsets)["number"]) + 1)
        paths = [segment(self._folder, number) for number in numbers[:_FEW]]
        if len(numbers) > _FEW or not all(path.exists() for path in paths):
            return None
        groups = [group for path in paths for group in _row_groups(path)]
        if sum(groups) > most:
            return None
        return pa.table({PATH: pa.array([str(path) for path in paths], pa.string())})

    def committed(self, offsets: str) -> None:
        if time.monotonic() >= self._due:
            full = sweep(self._folder, int(json.loads(offsets)["number"]), self._keep, 1000) == 1000
            self._due = time.monotonic() + (0 if full else _EACH)


def _row_groups(path: Path) -> list[int]:
    """The bytes of the groups of rows of a file, before they were compressed."""
    metadata = pq.read_metadata(path)
    return [metadata.row_group(number).total_byte_size for number in range(metadata.num_row_groups)]


def http(name: str, *, retention: str | timedelta = "1 hour") -> Http:
    """Events that come over HTTP, in the inbox of this name. `retention`: how long what is committed stays there."""
    if not valid_name(name):
        raise DefinitionError(f"'{name}' cannot be an inbox's name", hint="use letters, digits and underscores")
    return Http(name, positive(retention, "retention"))
