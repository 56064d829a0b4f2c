"""The numbers of a generator's events and their times, as a stream that Spark reads: at a rate by the clock.

An offset is a number and the instant at which it was due. An epoch's events are due up to the offset at its end, so a
replay of the epoch gives the same ones. Spark's own source of this kind hands over a whole pause as one epoch.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

SECOND: Final = 1_000_000
#: The most seconds of events in an epoch.
LONGEST: Final = 10
#: About how many events a part of an epoch has, and the most parts.
PART, PARTS = 50_000, 8

Offset = dict[str, int]


class Ticks(DataSource):
    """Numbers from 0 on, `rate` of them a second, in whole seconds."""

    @classmethod
    def name(cls) -> str:
        return "penstock_ticks"

    def schema(self) -> str:
        return "__number bigint, __tick timestamp"

    def streamReader(self, schema: object) -> DataSourceStreamReader:
        return TicksReader(int(self.options["rate"]))


@dataclass
class Part(InputPartition):
    """The numbers from `first` to before `end`; the number `last` is due at an instant."""

    first: int
    end: int
    last: int
    at: int


class TicksReader(DataSourceStreamReader):
    """Tells what is due, and reads it."""

    def __init__(self, rate: int, begun: int | None = None) -> None:
        self._rate = rate
        # The first second is due at once: Spark begins with an epoch, whether there is something or not.
        self._begun = time.time_ns() // 1000 - SECOND if begun is None else begun

    def initialOffset(self) -> Offset:
        return {"number": 0, "at": self._begun}

    def latestOffset(self, start: Offset, limit: object) -> Offset:
        return self.due(start, time.time_ns() // 1000)

    def due(self, start: Offset, now: int) -> Offset:
        """What is due by now, in whole seconds, and not too much at once."""
        seconds = min(max((now - start["at"]) // SECOND, 0), LONGEST)
        return {"number": start["number"] + seconds * self._rate, "at": start["at"] + seconds * SECOND}

    def partitions(self, start: Offset, end: Offset) -> Sequence[Part]:
        parts = min(1 + (end["number"] - start["number"]) // PART, PARTS)
        cuts = np.linspace(start["number"], end["number"], parts + 1).astype(np.int64).tolist()
        return [Part(a, b, end["number"], end["at"]) for a, b in pairwise(cuts) if a < b]

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        numbers = np.arange(partition.first, partition.end, dtype=np.int64)
        ticks = partition.at - (partition.last - numbers) * SECOND // self._rate
        arrays = [pa.array(numbers), pa.array(ticks, pa.timestamp("us", "UTC"))]
        yield pa.RecordBatch.from_arrays(arrays, names=["__number", "__tick"])
