"""Spark's jobs of one thread beside the epochs: a pool of their own, and how many of their tasks are done."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from penstock.errors import PenstockError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Tasks and their jobs are called so in Spark's scheduler, beside the epochs.
POOL: Final = "penstock-batch"


class JobProgress:
    """A context whose jobs of Spark run in the batch pool; `on_progress` gets how many of their tasks are done."""

    def __init__(self, spark: SparkSession, on_progress: Callable[[int, int], None] | None) -> None:
        self._spark, self._on_progress = spark, on_progress

    def __enter__(self) -> None:
        self._group = f"{POOL}-{uuid.uuid4().hex[:12]}"
        self._spark.sparkContext.setJobGroup(self._group, "the past of a view")
        self._spark.sparkContext.setLocalProperty("spark.scheduler.pool", POOL)
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="penstock-batch-progress", daemon=True)
        if self._on_progress is not None:
            self._thread.start()

    def __exit__(self, *error: object) -> None:
        self._done.set()
        if self._on_progress is not None:
            self._thread.join()
        for name in ("spark.scheduler.pool", "spark.jobGroup.id", "spark.job.description"):
            self._spark.sparkContext.setLocalProperty(name, None)  # type: ignore[arg-type]

    def _watch(self) -> None:
        tracker = self._spark.sparkContext.statusTracker()
        assert self._on_progress is not None
        while not self._done.wait(0.25):
            done = total = 0
            for job in tracker.getJobIdsForGroup(self._group):
                info = tracker.getJobInfo(job)
                for stage in info.stageIds if info is not None else ():
                    stage_info = tracker.getStageInfo(stage)
                    if stage_info is not None:
                        done, total = done + stage_info.numCompletedTasks, total + stage_info.numTasks
            try:
                self._on_progress(done, total)
            except PenstockError:  # the listener cancels the run
                self._spark.sparkContext.cancelJobGroup(self._group)
                return
