"""Spark jobs whose tasks differ by their number alone: their input is in files, or sent with the job."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.runtime.epoch.job import task_number
from penstock.runtime.epoch.wire import RECORD, Record, as_batches, records_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class NumberedJob(ABC):
    """What each task does. It travels to the tasks. `tasks` is how many there are."""

    tasks: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:  # a row only stands for a task
            pass
        yield from as_batches(self.records(task_number()))

    @abstractmethod
    def records(self, number: int) -> Sequence[Record]:
        """Does the work of one task; the records for the driver."""


def run_in_tasks(
    session: SparkSession, job: Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]], tasks: int
) -> list[Record]:
    """Runs a job in `tasks` tasks; the records that they sent."""
    rows = session.range(0, tasks, 1, tasks).mapInArrow(job, RECORD).toArrow().to_pylist()
    return list(records_of(rows))
