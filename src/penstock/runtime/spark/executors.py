"""Watches that Spark has executors: without one every job waits without a limit, and Spark reports no error."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from penstock.runtime.errors import RunError
from penstock.runtime.spark.internals import executor_count, task_threads
from penstock.runtime.spark.masters import is_local

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = logging.getLogger("penstock.runtime")


class ExecutorWatch:
    """Looks every `pause` seconds, until it is closed. `lost` is called when the run cannot go on.

    The executor of a local master is a part of the driver's Java: once it has stopped, it never comes back. On a
    cluster executors come and go: a lost one is replaced. After `patience` seconds without one, `missing` says so.
    """

    def __init__(
        self, spark: SparkSession, lost: Callable[[BaseException], None], *, pause: float = 1.0, patience: float = 5.0
    ) -> None:
        self._context: Any = spark.sparkContext
        self._lost, self._pause, self._patience = lost, pause, patience
        self.missing: str | None = None
        self._since: float | None = None  # when there was no executor for the first time
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="penstock-executors", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._over.set()
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join()

    def _watch(self) -> None:
        try:
            if is_local(str(self._context.master)):
                self._watch_own()
            else:
                self._watch_cluster()
        except Exception as error:  # Java has ended: the queries say so
            _log.debug("executors are not watched any more: %s", error)

    def _watch_own(self) -> None:
        pool = task_threads(self._context)
        while not self._over.wait(self._pause):
            if not pool.isShutdown():
                continue
            if self.missing is None:
                self.missing = "Spark's executor was stopped from outside"
                hint = "start the app again: nothing that was committed is lost"
                self._lost(RunError(self.missing, detail="no task can run any more", hint=hint))
            self._context.cancelAllJobs()  # they would not end, and stopping would wait for them

    def _watch_cluster(self) -> None:
        while not self._over.wait(self._pause):
            if executor_count(self._context):
                if self.missing is not None:
                    _log.warning("Spark has executors again")
                self._since = self.missing = None
                continue
            now = time.monotonic()
            self._since = now if self._since is None else self._since
            if self.missing is None and now - self._since >= self._patience:
                self.missing = f"Spark has no executor at {self._context.master}"
                _log.warning("%s: nothing is computed until one comes", self.missing)
