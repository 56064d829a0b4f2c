"""Those that read a stream: views, operators and sinks. Rows of the stream are reduced for all of them in one pass."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import polars as pl

from penstock.history.events.writer import Keeping
from penstock.kernel.offsets import chunk_task
from penstock.kernel.operators.base import SIGN
from penstock.model.changes import CHANGE
from penstock.model.row_steps import runs_code
from penstock.model.stream import Stream
from penstock.model.time import Instant
from penstock.model.watermarks import Observation
from penstock.runtime.commit.registry import Registry
from penstock.runtime.commit.work import CommitWork
from penstock.runtime.derived.base import Rows
from penstock.runtime.epoch.gather import Epoch, kept_files, refused
from penstock.runtime.epoch.ids import Identifier
from penstock.runtime.epoch.job import Job
from penstock.runtime.epoch.jobs import Jobs
from penstock.runtime.epoch.origin import EpochOrigin
from penstock.runtime.epoch.reduction import HERE, HERE_WITH_CODE, Reduction
from penstock.store.marks import MADE, Mark, ReaderTime


class Consumers:
    """Takes rows to those that read them."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._jobs = Jobs(registry)

    def reduce(
        self,
        name: str,
        columns: tuple[str, ...],
        rows: Rows,
        origin: EpochOrigin,
        work: CommitWork,
        keeping: Keeping | None,
        identifier: Identifier,
        before: Mapping[str, Instant] | None = None,
    ) -> tuple[dict[str, Job], dict[str, Epoch]]:
        """Reduces the rows of a stream: the jobs and their results, by feed.

        `before` are the watermarks in force, where rows are made by an operator and time has moved already.
        """
        registry = self._registry
        feeds = registry.lowered.of(name)
        if origin.reader is not None:  # the stream has accepted the rows before
            feeds, keeping = [replace(feed, stream=replace(feed.stream, id=None)) for feed in feeds[:1]], None
        spool = work.spool if before is None else None
        jobs = {feed.name: self._jobs.of(feed, columns, origin, work.now, keeping, spool, before) for feed in feeds}
        calls_code = any(runs_code(flow) for flow in registry.flows_of(name))  # it runs in tasks, on all cores
        small = None if calls_code else origin.small
        here = HERE_WITH_CODE if calls_code else HERE
        frames = registry.tables.frames
        reduction = Reduction(feeds, jobs, columns, identifier, frames=frames, small=small, here=here)
        return jobs, reduction.run(rows)

    def reduce_made(
        self, name: str, chunks: Iterable[pl.DataFrame], work: CommitWork, before: Mapping[str, Instant]
    ) -> Observation:
        """The rows that an operator gives, as rows of its stream: kept, and reduced for all that read them.

        They come in chunks, so that memory does not follow the size of an operator's output.
        """
        registry = self._registry
        stream = registry.streams[name]
        kept_as = EpochOrigin(MADE, 0, "")
        keeping = self.keeping(stream, f"{MADE}-{name}", 0, work)
        columns = stream.schema.names
        first = registry.store.operators.of(name).rows_given
        identifier = registry.shards.identifier(stream, None, work.spool)
        observed = Observation()
        for chunk, rows in enumerate(chunks):
            origin = EpochOrigin(MADE, work.number, "", first_task=chunk_task(chunk))
            rows = rows.with_columns(pl.col(SIGN).cast(pl.Int32).alias(CHANGE)) if CHANGE in columns else rows
            placed = rows.select(
                *columns, pl.lit(0, pl.Int32).alias("__partition"),
                pl.int_range(first, first + rows.height, dtype=pl.Int64).alias("__offset"),
            )  # fmt: skip
            first += rows.height
            table = placed.to_arrow(compat_level=pl.CompatLevel.oldest())
            jobs, parts = self.reduce(name, columns, table, origin, work, keeping, identifier, before)
            self.take(name, jobs, parts, work)
            work.count({f"{name}.events": parts[name].rows})
            if keeping is not None:
                work.files += kept_files(keeping, kept_as, parts[name], refused(parts.values()))
            observed = observed.merge(parts[name].observed)
        work.versions |= registry.lowered.versions(registry.flows_of(name))
        return observed

    def take(self, name: str, jobs: Mapping[str, Job], parts: Mapping[str, Epoch], work: CommitWork) -> None:
        """Adds the results for the rows of a stream."""
        for part in parts.values():
            work.count({f"{name}.{counter}": number for counter, number in part.counters.items()})
        deltas, spooled = self._jobs.deltas(jobs, parts), self._jobs.spooled(jobs, parts)
        work.take(name, jobs, parts, deltas, spooled, self._registry.fed)
        for part in parts.values():
            part.batches.clear()  # their deltas are in the work

    def keeping(self, stream: Stream, query: str, epoch: int, work: CommitWork) -> Keeping | None:
        """Where the tasks keep the rows of a stream, until the commit ends."""
        history = self._registry.history
        return None if history is None else work.attempt.enter_context(history.keeping(stream, query, epoch))

    def keep_failed(self, work: CommitWork) -> None:
        """Keeps the rows on which operators failed, as dead letters of the streams that they give."""
        for name, rows in work.failed.items():
            keeping = self.keeping(self._registry.streams[name], f"{MADE}-{name}", 0, work)
            if keeping is not None:
                work.files += kept_files(keeping, EpochOrigin(MADE, 0, ""), Epoch(), {"dead": rows})

    def note_times(self, work: CommitWork) -> None:
        """The times of all that read operators, before the commit."""
        work.times.update((name, self.times(name)) for name in self._registry.operators)

    def marks(self, work: CommitWork) -> list[Mark]:
        """What the readers of streams that operators made rows of have for a time."""
        made = [name for name in work.parts if name in self._registry.operators]
        return [Mark.of(name, work.times[name], self.times(name)) for name in made]

    def times(self, stream: str) -> dict[str, ReaderTime]:
        """The watermarks of the views and derived streams that read a stream."""
        times = self._registry.inputs.marks(stream)
        for name, view in self._registry.views.items():
            sources = tuple(source.name for source in view.plan.streams)
            if stream in sources:
                times[name] = ReaderTime(sources, view.time.watermark)
        return times
