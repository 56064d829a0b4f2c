"""Where an epoch comes from."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import polars as pl

from penstock.model.time import Instant
from penstock.runtime.derived.base import Step
from penstock.sources.base import ReadSmall
from penstock.store.arrivals import Ages, Arrivals
from penstock.store.figures import Intake
from penstock.store.spark_work import SparkWork, work_details

if TYPE_CHECKING:
    from penstock.runtime.epoch.gather import Epoch


@dataclass(frozen=True)
class EpochOrigin:
    """Where an epoch comes from: a query (one checkpoint of Spark's), its number there, and its offsets."""

    query: str
    epoch: int
    offsets: str
    before: str | None = None  # the offsets of the epoch before it
    intake: Intake = field(default_factory=Intake)  # how much it takes of its log
    partitions: tuple[Collection[int], Collection[int]] | None = (
        None  # of the source, and those that are read to their end
    )
    retried: Mapping[str, pl.DataFrame] | None = field(default=None, compare=False)  # places of dead letters, by key
    reader: str | None = None  # the only one that reads the rows; the stream has accepted them before
    from_files: bool = False  # the dead letters are files, which are read again
    positions: Mapping[str, range] | None = field(default=None, compare=False)  # of each file's rows
    first_task: int = 0  # from which tasks are counted in the offsets of rows that have none
    decoded: bool = False  # the rows have the stream's columns already
    step: Step | None = field(default=None, compare=False)  # of a derived stream
    small: ReadSmall | None = field(default=None, compare=False)  # reads its rows on the driver, if they are few
    handed_over: Instant | None = None  # when Spark came with it
    read: Ages | None = None  # of the events that an epoch of a derived stream has read
    clock: Callable[[], Instant] | None = field(default=None, compare=False)
    work: Callable[[], SparkWork] | None = field(default=None, compare=False)  # what it started in Spark so far

    def work_details(self, stream: str) -> dict[str, Any]:
        """What it started in Spark, as the details of its commit have it; nothing if that is not known."""
        return {} if self.work is None else work_details(stream, self.work())

    def arrivals(self, epoch: Epoch, now: Instant) -> Arrivals | None:
        """When its events arrived. Of those whose source does not tell: when Spark handed the epoch over.

        Dead letters that come again would only show how long they were dead letters.
        """
        if self.clock is None or self.retried is not None:
            return None
        ages = self.read
        if not ages:
            waited = 0 if self.handed_over is None else now - self.handed_over
            ages = epoch.ages + Ages.of([waited / 1000], epoch.rows - epoch.ages.events)
        return Arrivals(ages, self.clock) if ages.events else None
