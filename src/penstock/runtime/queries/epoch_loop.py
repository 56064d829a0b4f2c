"""Takes the epochs that Spark cuts: each becomes one commit, in its group's turn.

The commit protocol: Spark writes an epoch's offsets to its log before it calls us, and marks it done after we return.
In between the epoch's deltas, panes, refusals, watermarks and offsets go into the store in one transaction. An epoch
that the store has already is skipped; a store that lacks epochs which Spark has done refuses to run.

What a derived stream does for an epoch comes before its turn, and runs beside the turns of others.
"""

from __future__ import annotations

import json
import threading
import time as clock_time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from penstock.kernel.offsets import epoch_offsets
from penstock.model.time import Instant
from penstock.runtime.derived.base import Derived, Step, read_through, stepped
from penstock.runtime.engine import Engine
from penstock.runtime.epoch.origin import EpochOrigin
from penstock.runtime.errors import RunError
from penstock.runtime.groups import Groups
from penstock.runtime.queries.lifecycle import Lifecycle
from penstock.runtime.queries.standby import offsets_of, other_offsets
from penstock.runtime.queries.stream_query import StreamQuery
from penstock.runtime.spark.job_counter import JobCounter
from penstock.sources import Source
from penstock.store import SqlStore
from penstock.store.arrivals import Ages
from penstock.store.base import Progress

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class EpochRefused(Exception):
    """An epoch began when the run, or its stream's query, was stopping. Spark comes with it again at the next start."""


class EpochLoop:
    """Epochs of all streams."""

    def __init__(self, groups: Groups, store: SqlStore, lifecycle: Lifecycle) -> None:
        self._groups, self._store, self._lifecycle = groups, store, lifecycle
        self._busy: set[str] = set()  # streams with an epoch under way
        self._idle = threading.Condition()
        self._jobs: JobCounter | None = None

    def take(self, query: StreamQuery, rows: DataFrame, number: int) -> None:
        """An epoch that Spark has cut."""
        self._lifecycle.phases.epoch_began()
        try:
            handed_over = self._lifecycle.clock()
            with self._under_way(query):
                source = self._begin(query, number, handed_over)
                if source is not None:
                    self._run(query, rows, source)
        except EpochRefused:
            raise
        except BaseException as error:
            if not query.is_held:  # else its jobs were cancelled
                query.cause = error
            raise

    def wait_until_idle(self) -> None:
        """Waits for the epochs that run. If the run is stopping, none begins after that."""
        with self._idle:
            self._idle.wait_for(lambda: not self._busy)

    @contextmanager
    def _under_way(self, query: StreamQuery) -> Iterator[None]:
        """From here on the epoch is committed before the run stops; one of a query that restarts does not begin."""
        query.restarted.wait()  # Spark may call the first epoch before the restart is over
        with self._idle:
            if query.is_held or self._lifecycle.stopping.is_set():
                raise EpochRefused
            self._busy.add(query.name)
        try:
            yield
        finally:
            with self._idle:
                self._busy.discard(query.name)
                self._idle.notify_all()

    def _begin(self, query: StreamQuery, number: int, handed_over: Instant) -> EpochOrigin | None:
        """Where an epoch comes from; None if the store has it already."""
        query.is_waiting, query.has_answered = False, True
        self._store.check_place()  # else tasks would make a new history where the directory is gone
        self._store.check_owner()
        id = json.loads((query.checkpoint / "metadata").read_text())["id"]
        offsets = offsets_of(query.checkpoint, number)
        progress = self._store.progress(id)
        if not self._is_done(query.name, progress, number, offsets):
            before = None if progress is None else progress.offsets
            return EpochOrigin(id, number, offsets, before, handed_over=handed_over, clock=self._lifecycle.clock)
        partitions = query.follower.reading(offsets)
        if partitions is not None:
            with self._groups.turn([query.name]) as engine:
                engine.know_partitions(query.name, *partitions, self._lifecycle.clock())
        self._committed(query, offsets)
        return None

    def _is_done(self, name: str, progress: Progress | None, number: int, offsets: str) -> bool:
        """Whether the store has this epoch already; refuses a store that is behind, or that knows another one."""
        last = -1 if progress is None else progress.epoch
        if number > last + 1:
            raise RunError(
                f"the store is behind Spark's log of the stream '{name}': it has epoch {last}, Spark is at {number}",
                hint=f"restore the store, or read the stream again from its start: delete {self._store.directory}",
            )
        if number == last and progress is not None and progress.offsets != offsets:
            raise other_offsets(name, number, f"{progress.offsets} and {offsets}")
        return number <= last

    def _run(self, query: StreamQuery, rows: DataFrame, source: EpochOrigin) -> None:
        """Runs an epoch and commits it. The time that it waits for its turn does not count."""
        name, log, context = query.name, query.pace.placed, rows.sparkSession.sparkContext
        if self._jobs is None:
            self._jobs = JobCounter(context)
        source = replace(source, work=self._jobs.begin())
        context.setLocalProperty("spark.scheduler.pool", self._groups.of(name).pool)
        began = clock_time.perf_counter()
        with stepped(name, log, rows, source, self._store, self._lifecycle.clock()) as step:
            waits = clock_time.perf_counter()
            with self._groups.turn([name]) as engine:
                began += clock_time.perf_counter() - waits
                count = self._commit(engine, query, source, step)
        seconds = clock_time.perf_counter() - began
        query.pace.ended(query.query, query.follower.epoch_size, seconds, None if isinstance(log, Derived) else count)

    def _commit(self, engine: Engine, query: StreamQuery, source: EpochOrigin, step: Step) -> int:
        """Steps all views of the group with an epoch, and commits it. The number of its rows."""
        if query.is_held:
            raise EpochRefused
        self._store.check_owner()
        now = self._lifecycle.clock()
        engine.follow_clock(self._lifecycle.leaps, now)
        follower = query.follower
        partitions = follower.reading(source.offsets)
        positions = follower.positions(source.before, source.offsets, epoch_offsets(source.epoch))
        query.pace.look(query.query, source.offsets)
        intake = query.pace.intake(follower.epoch_size)
        small = partial(follower.small_epoch, source.before, source.offsets, positions)
        origin = replace(
            source, intake=intake, step=step, partitions=partitions, positions=positions,
            small=small if follower.reads_small else None, read=self._read(query.pace.placed, source, now),
        )  # fmt: skip
        commit = engine.epoch(query.name, query.columns, step.rows, origin, now)
        engine.registry.inputs.answered(query.name, source.offsets, step.due)
        self._lifecycle.tell_committed()
        self._committed(query, source.offsets)
        return 0 if commit.figures is None else commit.figures.rows

    def _read(self, log: Source, source: EpochOrigin, now: Instant) -> Ages | None:
        """How old the events are that an epoch of a derived stream has read; None for other streams."""
        if not isinstance(log, Derived):
            return None
        after = 0 if source.before is None else read_through(source.before)
        streams = [stream.name for stream in log.inputs]
        return self._store.ages_between(streams, after, read_through(source.offsets), now)

    def _committed(self, query: StreamQuery, offsets: str) -> None:
        """The store has an epoch."""
        query.follower.committed(offsets)
        self._lifecycle.retries.succeeded(query.part)
