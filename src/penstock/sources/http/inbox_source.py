"""The segments of an inbox, as a stream that Spark reads: an offset is the number of a segment.

A task gets names of files and reads them itself. Numbers have no gaps, so what is new is found without listing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from penstock.errors import PenstockError
from penstock.sources.http.inbox import inbox_definition, numbers, segment

#: The most bytes and segments of an epoch, and about how many bytes one part of it has.
BYTES, SEGMENTS, PART = 64 << 20, 5_000, 8 << 20
PATH: Final = "__path"

Offset = dict[str, Any]


class Segments(DataSource):
    """The segments of the inbox in the folder that the options name."""

    @classmethod
    def name(cls) -> str:
        return "penstock_inbox"

    def schema(self) -> str:
        return f"{PATH} string"

    def streamReader(self, schema: object) -> DataSourceStreamReader:
        return SegmentReader(self.options["inbox"], Path(self.options["folder"]))


@dataclass
class Part(InputPartition):
    """Segments from a number to before another."""

    first: int
    end: int


class SegmentReader(DataSourceStreamReader):
    """Tells which segments are new, and hands out their names."""

    def __init__(self, inbox: str, folder: Path) -> None:
        self._inbox, self._folder = inbox, folder
        definition = inbox_definition(folder)
        self._before = 0 if definition is None else definition.base - 1

    def initialOffset(self) -> Offset:
        there = numbers(self._folder)
        return {"inbox": self._inbox, "number": there[0] - 1 if there else self._before}

    def _after(self, offset: Offset) -> int:
        """The number of the last segment that was read. An offset of an inbox before this one lies below them all."""
        return max(int(offset["number"]), self._before)

    def latestOffset(self, start: Offset, limit: object) -> Offset:
        first = number = self._after(start)
        size = 0
        while number - first < SEGMENTS and size < BYTES:
            try:
                size += segment(self._folder, number + 1).stat().st_size
            except FileNotFoundError:
                break
            number += 1
        return start if number == first else {"inbox": self._inbox, "number": number}

    def partitions(self, start: Offset, end: Offset) -> Sequence[Part]:
        parts: list[Part] = []
        first, size = self._after(start) + 1, 0
        for number in range(first, end["number"] + 1):
            try:
                size += segment(self._folder, number).stat().st_size
            except FileNotFoundError:
                raise PenstockError(
                    f"the segment {number} of the inbox '{self._inbox}' was deleted before it was read",
                    hint="restore it; to keep segments longer: ps.http(…, retention='7 days')",
                ) from None
            if size >= PART or number == end["number"]:
                parts.append(Part(first, number + 1))
                first, size = number + 1, 0
        return parts

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        paths = [str(segment(self._folder, number)) for number in range(partition.first, partition.end)]
        yield pa.RecordBatch.from_arrays([pa.array(paths, pa.string())], names=[PATH])
