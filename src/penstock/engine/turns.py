"""Epochs and ticks take turns: each becomes one commit, and no two at a time.

What a stream made from others does for an epoch comes before its turn, and runs beside the turns of others.
"""

from __future__ import annotations

import json
import threading
import time as clock_time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from penstock.engine.commits_desk import DESK
from penstock.engine.core import Source
from penstock.engine.derived import Derived, Step, stepped
from penstock.engine.errors import RunError
from penstock.engine.standby import offsets_of, other_offsets
from penstock.engine.undo import taken_back
from penstock.engine.watching import Watching
from penstock.store.base import Progress
from penstock.store.checkpoints import Place

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

_TICKS: Final = "time"
#: So many seconds an epoch waits for its query to be stopped.
_PATIENT: Final = 10.0


class _Stopping(Exception):
    """An epoch began when the run, or its stream's query, was stopping."""


class Turns(Watching):
    """The part of a run that takes epochs and lets time pass."""

    directory: Path
    _tick: float
    _committed: threading.Event
    _busy: set[str]  # streams with an epoch under way
    _idle: threading.Condition  # of the mutex: one of them has ended

    # epochs

    def _epoch(self, name: str, columns: tuple[str, ...], checkpoint: Place, rows: DataFrame, number: int) -> None:
        """An epoch that Spark has cut. What a stream made from others does for it runs beside the epochs of others."""
        try:
            with self._under_way(name):
                source, log = self._begun(name, checkpoint, number), self._paces[name].placed
                if source is None:
                    if isinstance(log, Derived):
                        log.skip(rows)
                else:
                    began = clock_time.perf_counter()
                    with stepped(name, log, columns, rows, source, self.store, self._clock()) as step:
                        waits = clock_time.perf_counter()
                        with self._mutex:
                            began += clock_time.perf_counter() - waits
                            self._commit_epoch(name, columns, source, step)
                    self._end_epoch(name, clock_time.perf_counter() - began)
            if self._paces[name].wanted is not None:
                self._wait_for_end(self._queries[name])
        except _Stopping:
            raise  # Spark comes with it again at the next start
        except BaseException as error:
            if name not in self._restarting:  # else its jobs were cancelled
                self._epoch_failed(name, error)
            raise

    @contextmanager
    def _under_way(self, name: str) -> Iterator[None]:
        """From here on an epoch is committed before the run stops; one of a stream that restarts does not begin."""
        with self._mutex:
            self._check_goes_on(name)
            self._busy.add(name)
        try:
            yield
        finally:
            with self._idle:
                self._busy.discard(name)
                self._idle.notify_all()

    def _check_goes_on(self, name: str) -> None:
        if name in self._restarting or (self._stopping.is_set() and name not in self._busy):
            raise _Stopping

    def _begun(self, name: str, checkpoint: Place, number: int) -> Source | None:
        """Where an epoch comes from; None if the store has it already."""
        with self._mutex:
            self._waiting.discard(name)
            self._known.add(name)
            self.store.check_place()  # else tasks would make a new master where the directory is gone
            self.store.check_owner()
            query = json.loads((checkpoint / "metadata").read_text())["id"]
            offsets = offsets_of(checkpoint, number)
            progress = self.store.progress(query)
            if not self._is_done(name, progress, number, offsets):
                return Source(query, number, offsets, None if progress is None else progress.offsets)
            self._know_partitions(name, offsets)
            self._followers[name].committed(offsets)
            self._gets_on(name)
            return None

    def _commit_epoch(self, name: str, columns: tuple[str, ...], source: Source, step: Step) -> None:
        """Takes the step of all views with an epoch, and commits it."""
        self._check_goes_on(name)
        self.store.check_owner()
        self._heed_leaps()
        with taken_back(self.engine):
            self._know_partitions(name, source.offsets)
            self._paces[name].look(self._queries.get(name), source.offsets)
            notes = {**self._paces[name].notes(self._followers[name].taken), **step.notes}
            self.engine.epoch(name, columns, step.rows, replace(source, notes=notes, step=step), self._clock())
        self.engine.inputs.answered(name, source.offsets, step.due)
        self._tell_committed()
        self._followers[name].committed(source.offsets)
        self._gets_on(name)

    def _end_epoch(self, name: str, seconds: float) -> None:
        """An epoch has taken so long: whether the next ones are to be larger or smaller."""
        with self._mutex:
            if name in self._paces and self._paces[name].ended(self._followers[name].taken, seconds):
                self._restarting.add(name)

    def _wait_for_end(self, query: StreamingQuery) -> None:
        """Another limit is worth a restart: the watcher stops the query here, before Spark cuts the next epoch.

        So no epoch is cut by the old limit, and none is called only to fail.
        """
        end = clock_time.monotonic() + _PATIENT
        while query.isActive and clock_time.monotonic() < end and not self._stopping.wait(0.01):
            pass

    def _know_partitions(self, name: str, offsets: str) -> None:
        """A partition that shows nothing yet holds time back until it is idle: so the tracker must know of it."""
        found, tracker = self._followers[name].reading(offsets), self.engine.trackers.get(name)
        if found is not None and tracker is not None:
            tracker.know(*found, self._clock())

    def _is_done(self, name: str, progress: Progress | None, number: int, offsets: str) -> bool:
        """Whether the store has this epoch already; refuses a store that is behind, or that knows another one."""
        last = -1 if progress is None else progress.epoch
        if number > last + 1:
            raise RunError(
                f"the store is behind Spark's log of the stream «{name}»: it has epoch {last}, Spark is at {number}",
                hint=f"restore the store, or read the stream again from its start: delete {self.directory}",
            )
        if number == last and progress is not None and progress.offsets != offsets:
            raise other_offsets(name, number, f"{progress.offsets} and {offsets}")
        return number <= last

    def _tell_committed(self) -> None:
        """Wakes those who wait for a commit: in this run, and the queries that read its commits."""
        self._committed.set()
        DESK.committed()

    # ticks

    def _tick_on(self) -> None:
        while not self._stopping.wait(self._tick):
            if self._failure is not None or (self._retries.waits(_TICKS) and not self._retries.is_due(_TICKS)):
                continue
            try:
                with self._mutex:
                    self.store.check_owner()  # one that has nothing to commit would never find out
                    self._heed_leaps()
                    with taken_back(self.engine):
                        if not self._stopping.is_set() and self.engine.tick(self._clock()) is not None:
                            self._tell_committed()
                self._retries.gets_on(_TICKS)
            except BaseException as error:
                if not self._retries.failed(_TICKS, error):
                    self._failure = self._failure or error
                    return
