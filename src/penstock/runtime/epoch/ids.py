"""Ids: which rows of an epoch do not count, because their id was accepted before or is too old to judge."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import polars as pl

from penstock.kernel.deduplicate import Verdict, deduplicate
from penstock.model.stream import Stream
from penstock.model.time import BEGINNING, Instant
from penstock.model.watermarks import Tracker
from penstock.runtime.epoch.gather import unpacked_ids
from penstock.runtime.epoch.job import IdJob, Job
from penstock.runtime.epoch.numbered_job import NumberedJob
from penstock.runtime.epoch.wire import Record, read, segments, verdicts
from penstock.state.ids import SCHEMA, IdChange, IdStep, ShardedIds, parted_ids
from penstock.state.segment import Segment, SegmentFile, shards
from penstock.state.spool import Receivers, Spool, SpooledDeltas
from penstock.store import Store


@dataclass(frozen=True)
class IdOutcome:
    """What an epoch adds to the known ids of its stream, for the commit: rows, or segments. And what it forgets."""

    new: Mapping[str, pl.DataFrame] = field(default_factory=dict)
    forget: Mapping[str, Instant] = field(default_factory=dict)
    segments: Mapping[str, IdChange] = field(default_factory=dict)


class Identifier(Protocol):
    """Judges the ids of an epoch."""

    def job(self, job: Job) -> IdJob:
        """What tasks do in the first pass over the rows."""

    def rejected(self, records: Iterable[Record], stream: Stream) -> pl.DataFrame:
        """The places of rows that do not count, with kind and reason, from what those tasks have sent."""


class EpochIds(Identifier, Protocol):
    """An identifier whose verdicts become known ids."""

    def outcome(self, tracker: Tracker | None) -> IdOutcome:
        """What the commit writes. Time has moved to where the epoch brings it."""


class FirstOfEach:
    """Of rows with the same id the first counts. All ids come to the driver; none is known before."""

    def job(self, job: Job) -> IdJob:
        return IdJob(job)

    def rejected(self, records: Iterable[Record], stream: Stream) -> pl.DataFrame:
        ids = unpacked_ids(records, stream)
        return deduplicate(ids, ids.select("__id", "__at").clear(), BEGINNING, 0).rejected


class IdsInStore:
    """All ids of an epoch come to the driver, and are compared with those that the store has in a table."""

    def __init__(self, stream: Stream, tracker: Tracker | None, store: Store) -> None:
        self._stream, self._tracker, self._store = stream, tracker, store
        self._new: dict[str, pl.DataFrame] = {}

    def job(self, job: Job) -> IdJob:
        return IdJob(job)

    def rejected(self, records: Iterable[Record], stream: Stream) -> pl.DataFrame:
        return left_out(self._stream, self._tracker, self._store, unpacked_ids(records, stream), self._new)

    def outcome(self, tracker: Tracker | None) -> IdOutcome:
        before = forgotten_before(self._stream, tracker)
        return IdOutcome(self._new, {} if before is None or not self._new else {self._stream.name: before})


class IdsInShards:
    """Ids go to the tasks that own the shards, unless they are few.

    `run` has tasks do a job, and returns their records.
    """

    def __init__(
        self,
        stream: Stream,
        step: IdStep,
        spool: Spool,
        receivers: Receivers,
        few: int,
        run: Callable[[IdShardJob], Sequence[Record]] | None,
    ) -> None:
        self._stream, self._step, self._spool, self._receivers = stream, step, spool, receivers
        self._few, self._run = few, run
        self._added: list[Segment] = []

    def job(self, job: Job) -> IdJob:
        return IdJob(job, self._spool, self._receivers)

    def rejected(self, records: Iterable[Record], stream: Stream) -> pl.DataFrame:
        output = read(records)
        spooled = [one for several in output.spooled.values() for one in several]
        here = pl.concat([pl.DataFrame(schema=SCHEMA), *output.ids])
        job = IdShardJob(self._step, self._receivers.count, self._spool.write_id, tuple(spooled), here)
        if self._run is not None and here.height + sum(one.rows for one in spooled) > self._few:
            sent = read(self._run(job))
            self._added = [segment for number in sorted(sent.segments) for segment in sent.segments[number]]
            return pl.concat(sent.verdicts)
        verdict, self._added = job.judged(None)
        return verdict.rejected

    def outcome(self, tracker: Tracker | None) -> IdOutcome:
        change = IdChange(tuple(self._added), forgotten_before(self._stream, tracker))
        return IdOutcome(segments={self._stream.name: change})


@dataclass(frozen=True)
class IdShardJob(NumberedJob):
    """The verdicts on an epoch's ids in Spark's tasks. `here` are ids that travel with the job."""

    step: IdStep
    tasks: int
    write_id: str
    spooled: tuple[SpooledDeltas, ...]
    here: pl.DataFrame

    def records(self, number: int) -> Sequence[Record]:
        verdict, added = self.judged(number)
        return [segments(number, added), verdicts(verdict.rejected)]

    def judged(self, number: int | None) -> tuple[Verdict, list[Segment]]:
        """The verdict of one task, or on all ids; and the segments that were written."""
        root = self.step.ids.root
        parts = range(self.tasks) if number is None else [number]
        rows = [part for one in self.spooled for n in parts if (part := one.read(root, n)) is not None]
        own = [self.here] if number is None else [parted_ids(self.here, self.tasks)[number]]
        step = self.step if number is None else self.step.within(shards(self.tasks)[number])
        verdict, encoded = step(pl.concat([pl.DataFrame(schema=SCHEMA), *rows, *own]), self.step.ids.next_run)
        with SegmentFile(root, f"{self.write_id}.ids-{uuid.uuid4().hex}.arrow") as file:
            file.add(encoded)
            return verdict, file.close()


def id_step(stream: Stream, tracker: Tracker | None, ids: ShardedIds) -> IdStep:
    """How the ids of an epoch are judged."""
    return IdStep(ids, _watermark(tracker), stream.id_horizon)


def forgotten_before(stream: Stream, tracker: Tracker | None) -> Instant | None:
    """Before which event time ids are forgotten; None while time is not known."""
    return None if tracker is None or tracker.watermark <= BEGINNING else tracker.watermark - stream.id_horizon


def left_out(
    stream: Stream, tracker: Tracker | None, store: Store, ids: pl.DataFrame, new_ids: dict[str, pl.DataFrame]
) -> pl.DataFrame:
    """The places of rows that do not count, with kind and reason, of all ids of an epoch; notes the new ids."""
    known = store.ids(stream.name, ids.select("__id").unique())
    verdict = deduplicate(ids, known, _watermark(tracker), stream.id_horizon)
    new_ids[stream.name] = verdict.new_ids
    return verdict.rejected


def _watermark(tracker: Tracker | None) -> Instant:
    return BEGINNING if tracker is None else tracker.watermark
