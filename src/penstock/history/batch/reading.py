"""Reads the past of a view's streams in Spark and reduces it by the epoch's own code, to deltas in parts by key.

To the batch layer no event is late. Few results come together on the driver; where they may be many there is one
combining exchange by key, and the driver takes one part at a time.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from penstock.errors import DefinitionError
from penstock.history.batch.pieces import pieces_of
from penstock.history.batch.progress import JobProgress
from penstock.history.batch.tasks import Combine, Combining, PastJob, Pieces
from penstock.history.events.past import Past
from penstock.kernel.exact import as_past, widened
from penstock.kernel.plan import Plan
from penstock.kernel.reduce import combine
from penstock.kernel.share import Sharing
from penstock.model.stream import Stream
from penstock.model.time import BEGINNING, Instant
from penstock.model.windows import CountBased
from penstock.runtime.epoch.feeds import Feed, Lowered
from penstock.runtime.epoch.gather import Epoch
from penstock.runtime.epoch.ids import FirstOfEach
from penstock.runtime.epoch.job import Job
from penstock.runtime.epoch.needs import needed
from penstock.runtime.epoch.reduction import Reduction
from penstock.runtime.epoch.wire import RECORD, Record, is_deltas, read, records_of, unpack

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: The most deltas that the driver takes at once; more are split into parts by one exchange.
PART_ROWS: Final = 8_000_000
_MOST_PARTS: Final = 256
#: One task reads small files until it has about this many rows.
_TASK: Final = 1_000_000


class Reading:
    """One view's past, on its way to deltas. They are spooled to a folder, part by part."""

    def __init__(
        self, spark: SparkSession, name: str, lowered: Lowered, now: Instant, folder: Path, part_rows: int = PART_ROWS
    ) -> None:
        self._spark, self._name, self._lowered, self._now, self._folder = spark, name, lowered, now, folder
        self.plan = Plan(lowered.views[name])
        #: By what a part of the past is read that had other versions of tables.
        self.lowered_for: Callable[[Past], Lowered] = lambda past: lowered
        self.rows = 0
        #: About how many windows there will be, where that is known.
        self.expected: int | None = None
        self._parts, self._part_rows = 1, part_rows
        self._spooled: dict[int, list[Path]] = {}
        self._counter = itertools.count()

    @cached_property
    def wide(self) -> Plan:
        """By what the past is reduced: the view's plan, with exact aggregates beside those that are not."""
        return widened(self.plan)

    def read(self, pasts: Mapping[str, Sequence[Past]], on_progress: Callable[[int, int], None] | None = None) -> None:
        """Reduces all of it. `on_progress` gets the number of tasks that are done, of how many."""
        known = [past.rows for several in pasts.values() for past in several]
        rows = sum(count for count in known if count is not None) if None not in known else 10 * self._part_rows
        if self.expected is not None:
            rows = min(rows, self.expected * self._tasks(rows))  # each task may see all of them
        self._parts = min(-(-rows // self._part_rows), _MOST_PARTS) or 1 if self.plan.keys else 1
        with JobProgress(self._spark, on_progress):
            for stream, several in pasts.items():
                for past in several:
                    self._read(stream, past)

    def _read(self, stream: str, past: Past) -> None:
        lowered = self.lowered_for(past)
        plan = self.wide if lowered is self._lowered else widened(Plan(lowered.views[self._name]))
        feeds = lowered.of(stream)
        if isinstance(self.plan.view.windows, CountBased) and any(feed.prefix for feed in feeds if self._reads(feed)):
            raise DefinitionError(
                "the elements of count windows after DataFrame code have no order that could be found again",
                hint="use a window in time",
            )
        source = feeds[0].source
        columns = needed(source, lowered)
        if past.accepted:
            feeds = [_accepted(feed) for feed in feeds]
        pieces = self._pieces(feeds, past, columns)
        jobs = {feed.name: self._job(feed, columns, plan, past) for feed in feeds}

        def take(frame: DataFrame, job: Job) -> Epoch:
            return self._take(frame, job, pieces)

        if pieces is None:
            rows = past.frame(self._spark, columns)
        else:
            count, wished = len(pieces.pieces), self._tasks(pieces.rows)
            rows = self._spark.range(0, count, 1, max(min(count, wished), 1))
        Reduction(feeds, jobs, columns, FirstOfEach(), take).run(rows)

    def _tasks(self, rows: int) -> int:
        """How many tasks read a number of rows of the history."""
        return max(self._spark.sparkContext.defaultParallelism, rows // _TASK)

    def _reads(self, feed: Feed) -> bool:
        return feed.name in self.plan.sources

    def _job(self, feed: Feed, columns: tuple[str, ...], plan: Plan, past: Past) -> Job:
        is_read = self._reads(feed)
        return Job(
            feed.source, feed.stream, feed.schema.names if feed.prefix else columns,
            (self._name,) if is_read else (), Sharing(feed.name, (plan,) if is_read else (), ()),
            (BEGINNING,) if is_read else (), 0, self._now, BEGINNING, place=feed.place,
            positions=past.positions if feed.place is None else None,
        )  # fmt: skip

    def _pieces(self, feeds: list[Feed], past: Past, columns: tuple[str, ...]) -> Pieces | None:
        """The files of the past, where the tasks can read them themselves."""
        if len(feeds) > 1 or feeds[0].columns:
            return None
        return pieces_of(past, self.plan, feeds[0].schema, columns, by_commit=self._by_commit)

    @property
    def _by_commit(self) -> bool:
        """Whether it matters which commit brought a row."""
        return isinstance(self.plan.view.windows, CountBased)

    # what the tasks sent

    def _take(self, frame: DataFrame, job: Job, pieces: Pieces | None) -> Epoch:
        if not job.views:
            return Epoch()
        records = frame.mapInArrow(self._work(job, pieces), RECORD)
        if self._parts > 1:
            records = records.repartition(self._parts, "number").mapInArrow(Combining(self._combined), RECORD)
        source: Iterator[Any] = records.toLocalIterator() if self._parts > 1 else iter(records.toArrow().to_pylist())
        spooled: dict[int, list[Path]] = {}
        counts: list[Record] = []
        for record in records_of(source):
            if is_deltas(record):
                path = self._folder / f"part-{record.number}-{next(self._counter)}.arrow"
                path.write_bytes(record.data)
                spooled.setdefault(record.number, []).append(path)
            else:
                counts.append(record)
        rows = read(counts).rows
        self.rows += rows
        for part, paths in spooled.items():
            self._spooled.setdefault(part, []).extend(paths)
        return Epoch(rows)

    def _work(self, job: Job, pieces: Pieces | None) -> PastJob:
        """What each task does."""
        return PastJob(job, self._parts, pieces)

    @property
    def _combined(self) -> Combine:
        """Deltas of one part, from several tasks, as one."""
        return partial(combine, self.wide)

    def parts(self) -> Iterator[list[pl.DataFrame]]:
        """What the tasks sent of each part; each key is in one of them."""
        for part in sorted(self._spooled):
            yield [self._as_past(unpack(path.read_bytes())) for path in self._spooled[part]]
            for path in self._spooled[part]:
                path.unlink()

    def _as_past(self, deltas: pl.DataFrame) -> pl.DataFrame:
        """Deltas that know for which rows a batch aggregate will answer: here for all."""
        return as_past(self.plan, deltas)

    @property
    def count(self) -> int:
        """How many parts there are."""
        return len(self._spooled)


def _accepted(feed: Feed) -> Feed:
    """A feed of rows that the stream has accepted: columns as they are, each id once."""

    def plain(stream: Stream) -> Stream:
        return replace(stream, log=None, id=None, max_ahead=None)

    return replace(feed, source=plain(feed.source), stream=plain(feed.stream))
