"""Starts Spark's Python workers beside the start of an app, so that the first epoch need not wait for them.

Workers are forked from a process that loads the kernel first. That and the first job take a second or two; until they
are over, the driver, which has the kernel, reduces larger epochs than later.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from penstock.process_state import process

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession


#: Counts how often modules of the app were loaded again.
_CODE: Final = "APP_MODULES_LOADED"


class WorkerStart:
    """Whether the workers of the session of this process are being started. It has one, in `process_state`."""

    def __init__(self) -> None:
        self._running: set[threading.Thread] = set()

    @property
    def goes_on(self) -> bool:
        """Whether tasks would have to wait for workers."""
        return bool(self._running)

    def begin(self, session: SparkSession) -> threading.Thread:
        """Starts them in a thread, which it returns: the first job of each worker does nothing."""
        thread = threading.Thread(target=self._start, args=(session,), name="penstock-workers", daemon=True)
        self._running.add(thread)
        thread.start()
        return thread

    def _start(self, session: SparkSession) -> None:
        try:
            with suppress(Exception):  # the session has ended meanwhile, or the epoch says what is wrong
                tasks = session.sparkContext.defaultParallelism
                session.range(0, tasks, 1, tasks).mapInArrow(_nothing, "id long").toArrow()
        finally:
            self._running.discard(threading.current_thread())


def renew_workers(session: SparkSession) -> None:
    """From here on tasks run in new processes: they import modules again. Spark makes these by their environment."""
    environment: dict[str, str] = session.sparkContext.environment
    environment[_CODE] = str(int(environment.get(_CODE, "0")) + 1)
    process.of(WorkerStart).begin(session)


def _nothing(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What a task does that only starts a worker."""
    yield from batches
