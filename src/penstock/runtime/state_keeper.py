"""Looks after segments while an app runs: merges runs in the background, and removes files that nobody needs."""

from __future__ import annotations

import logging
import threading
import time as clock_time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from penstock.model.time import Instant
from penstock.runtime.commit.shards import FEW_ROWS, Shards
from penstock.runtime.epoch.numbered_job import NumberedJob, run_in_tasks
from penstock.runtime.epoch.wire import Record, read, segments
from penstock.state.compact import Merge, kept_windows, merges
from penstock.state.ids import LAYOUT, kept_ids, owner_of
from penstock.state.layout import layouts
from penstock.state.operator_state import kept_rows, operator_layouts
from penstock.state.operator_state import owner_of as owner_of_operator
from penstock.state.segment import HashRange, Segment, SegmentFile
from penstock.store import SqlStore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOG = logging.getLogger("penstock.state")
#: Seconds between two looks at the list of segments, and between two sweeps.
EVERY: Final = 1.0
SWEEP_EVERY: Final = 60.0
#: The pool of Spark's fair scheduler in which runs are merged.
POOL: Final = "penstock-state"


@dataclass(frozen=True)
class MergeJob(NumberedJob):
    """A merge in Spark's tasks: each writes some shards into a file of its own, so that none holds a core for long."""

    merge: Merge
    write_id: str
    pieces: tuple[HashRange, ...]

    def records(self, number: int) -> Sequence[Record]:
        return [segments(number, self.run(number))]

    def run(self, number: int) -> list[Segment]:
        """Merges one piece."""
        with SegmentFile(self.merge.root, f"{self.write_id}.{number}-{uuid.uuid4().hex}.arrow") as file:
            self.merge.check(number, len(self.pieces))
            self.merge.write(file, [self.pieces[number]])
            return file.close()


class Sweeper(Protocol):
    """Removes files that nobody needs; how many."""

    def sweep(self, now: Instant) -> int: ...

    def sweep_panes(self, now: Instant) -> int:
        """Only those of panes."""


class StateKeeper:
    """One for a run. The store must be this process's to write."""

    def __init__(
        self,
        store: SqlStore,
        shards: Shards,
        session: Callable[[], SparkSession] | None,
        clock: Callable[[], Instant],
        sweeper: Sweeper,
    ) -> None:
        self._store, self._shards, self._session, self._clock, self._sweeper = store, shards, session, clock, sweeper
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._look, name="penstock-state", daemon=True)

    def start(self) -> None:
        """No epoch runs yet: what nobody lists is removed. From here on runs are merged as they pile up."""
        self._sweeper.sweep(self._clock())
        self._thread.start()

    def stop(self) -> None:
        """Waits for the current merge."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    def compact(self) -> int:
        """Merges what should be merged now; how many merges that were."""
        done = 0
        for name in self._store.sharded_names():
            sharded = self._store.sharded(name)
            if sharded is None:
                continue
            keep = kept_windows(sharded.expired)
            for merge in merges(sharded.root, layouts(sharded.plan), sharded.segments, keep):
                if self._stopping.is_set():
                    return done
                done += self._merge(name, merge)
        for stream in self._store.known_ids.sharded_streams():
            ids = self._store.known_ids.sharded(stream)
            for merge in [] if ids is None else merges(ids.root, {"ids": LAYOUT}, ids.segments, kept_ids(ids.expired)):
                if self._stopping.is_set():
                    return done
                done += self._merge(owner_of(stream), merge)
        for stream in self._store.operators.streams:
            state, kinds = self._store.operators.of(stream), self._store.operators.kinds(stream)
            for merge in merges(state.root, operator_layouts(kinds), state.segments, kept_rows(state.expired)):
                if self._stopping.is_set():
                    return done
                done += self._merge(owner_of_operator(stream), merge)
        return done

    def _merge(self, owner: str, merge: Merge) -> bool:
        """Merges some runs. False if another commit has replaced them meanwhile: the files are swept later."""
        write_id = f"{self._store.token}-merge-{uuid.uuid4().hex[:12]}"
        with self._shards.writes.running(write_id):
            job = MergeJob(merge, write_id, tuple(merge.pieces))
            added = self._run(job) if self._session is not None and merge.rows > FEW_ROWS else self._here(job)
            return self._store.replace_segments(owner, merge.segments, added, self._clock())

    def _here(self, job: MergeJob) -> list[Segment]:
        return [segment for number in range(len(job.pieces)) for segment in job.run(number)]

    def _run(self, job: MergeJob) -> list[Segment]:
        assert self._session is not None
        session = self._session()
        session.sparkContext.setLocalProperty("spark.scheduler.pool", POOL)
        written = read(run_in_tasks(session, job, len(job.pieces))).segments
        return [segment for number in sorted(written) for segment in written[number]]

    def _look(self) -> None:
        swept = clock_time.monotonic()
        while not self._stopping.wait(EVERY):
            try:
                self.compact()
                if clock_time.monotonic() - swept > SWEEP_EVERY:
                    swept = clock_time.monotonic()
                    self._sweeper.sweep(self._clock())
                else:
                    self._sweeper.sweep_panes(self._clock())  # they are as many as the events
            except Exception as error:  # the app does without; it is tried again
                if not self._stopping.is_set():
                    _LOG.warning("segments could not be merged: %s", error)
