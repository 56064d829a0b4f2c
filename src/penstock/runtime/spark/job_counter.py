"""Counts the Spark jobs and stages of an epoch, in few round trips to Java: one at its start, one at its end."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from penstock.runtime.spark.internals import job_group, job_scheduler, job_stages
from penstock.store.spark_work import SparkWork

if TYPE_CHECKING:
    from pyspark import SparkContext


class JobCounter:
    """Counts the jobs that the job group of a thread starts. The epochs of a query have a group of their own."""

    def __init__(self, context: SparkContext) -> None:
        self._context, self._scheduler = context, job_scheduler(context)

    def begin(self) -> Callable[[], SparkWork]:
        """Counts from now on. What it returns tells this thread how many there were."""
        first = self._scheduler.numTotalJobs()
        return lambda: self._since(first)

    def _since(self, first: int) -> SparkWork:
        end = self._scheduler.numTotalJobs()
        if end == first:
            return SparkWork()
        group = job_group(self._context)
        stages = [job_stages(self._context, number, group) for number in range(first, end)]
        own = [count for count in stages if count is not None]
        return SparkWork(len(own), sum(own))
