"""Watermarks: the estimate, by stream, that no more events older than it will come.

A definition (`Bounded`, `Percentile`, `Punctuated`) says how to estimate; a `Tracker` holds what was observed and moves
the watermark forward, never back, once a commit. Both engines use the same tracker; they differ in how they observe.

>>> tracker = Tracker(bounded("10 seconds"))
>>> tracker.advance(Observation({0: PartitionTimes(newest=60_000_000)}), now=0)
>>> tracker.watermark
50000000
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

from penstock.errors import DefinitionError
from penstock.model.commits import Commit
from penstock.model.expressions import Sql, sql_text
from penstock.model.time import BEGINNING, Duration, Instant, duration, not_negative, positive, show_duration

DEFAULT_IDLE: Duration = duration("1 minute")
#: How many lateness measurements are held before older ones start to count less.
MEMORY = 1_000_000


@dataclass(frozen=True)
class Watermark:
    """How a stream estimates its progress. `idle`: how long a partition may be silent before it is left out."""

    idle: Duration | None = field(default=DEFAULT_IDLE, kw_only=True)

    def _idle(self, default: Duration | None = DEFAULT_IDLE) -> str:
        if self.idle == default:
            return ""
        return f"idle={None if self.idle is None else show_duration(self.idle)!r}"


@dataclass(frozen=True, repr=False)
class Bounded(Watermark):
    """The newest event time less a fixed delay."""

    delay: Duration

    def __repr__(self) -> str:
        return f"ps.bounded({', '.join(filter(None, [repr(show_duration(self.delay)), self._idle()]))})"


@dataclass(frozen=True, repr=False)
class Percentile(Watermark):
    """The newest event time less the lateness that `percent` of the events observed so far stayed below."""

    percent: float

    def __repr__(self) -> str:
        return f"ps.percentile({', '.join(filter(None, [f'{self.percent:g}', self._idle()]))})"


@dataclass(frozen=True, repr=False)
class Punctuated(Watermark):
    """What the source itself says: the newest value of an expression, which most rows leave null."""

    mark: str

    def __repr__(self) -> str:
        return f"ps.punctuated({', '.join(filter(None, [repr(self.mark), self._idle(None)]))})"


@dataclass(frozen=True, repr=False)
class Carried(Watermark):
    """What another view's watermark says: that of its changes."""

    idle: Duration | None = field(default=None, kw_only=True)

    def __repr__(self) -> str:
        return "the watermark of the view"


def bounded(delay: str | timedelta, *, idle: str | timedelta | None = "1 minute") -> Bounded:
    """Events are late by at most this duration: `bounded("10 seconds")`."""
    return Bounded(not_negative(delay, "the delay of a watermark"), idle=_idle_of(idle))


def percentile(percent: float, *, idle: str | timedelta | None = "1 minute") -> Percentile:
    """A share of the events, in percent, comes before the watermark passes them: `percentile(99.5)`."""
    if not 0 < percent <= 100:
        raise DefinitionError(f"ps.percentile takes a percentage above 0 and up to 100, not {percent!r}")
    return Percentile(float(percent), idle=_idle_of(idle))


def punctuated(mark: Sql, *, idle: str | timedelta | None = None) -> Punctuated:
    """The source marks its progress: `punctuated("CASE WHEN kind = 'mark' THEN at END")`."""
    return Punctuated(sql_text(mark), idle=_idle_of(idle))


def _idle_of(idle: str | timedelta | None) -> Duration | None:
    return None if idle is None else positive(idle, "the idle time of a partition")


# Lateness as a histogram: its bounds grow by a sixteenth of each power of two, so an estimate is at most 6 % too high.
_STEPS = 16
BOUNDS: tuple[int, ...] = tuple(
    sorted({*range(_STEPS), *((_STEPS + i) << shift for shift in range(45) for i in range(_STEPS))})
)


def bucket(lateness: Duration) -> int:
    """The bucket whose bound is the smallest that is not below this lateness.

    >>> BOUNDS[bucket(0)], BOUNDS[bucket(1_000_000)]
    (0, 1015808)
    """
    return min(bisect_left(BOUNDS, lateness), len(BOUNDS) - 1)


@dataclass(frozen=True)
class PartitionTimes:
    """What one commit showed of one partition: its newest event time, and the newest mark that the source set."""

    newest: Instant
    mark: Instant | None = None

    def merge(self, other: PartitionTimes) -> PartitionTimes:
        """What both showed together.

        >>> PartitionTimes(5).merge(PartitionTimes(3, mark=2))
        PartitionTimes(newest=5, mark=2)
        """
        marks = [mark for mark in (self.mark, other.mark) if mark is not None]
        return PartitionTimes(max(self.newest, other.newest), max(marks, default=None))


@dataclass(frozen=True)
class Observation:
    """What one commit showed of a stream. Lateness is how far an event lies behind the newest of earlier commits."""

    partitions: Mapping[int, PartitionTimes] = field(default_factory=dict)
    lateness: Mapping[int, int] = field(default_factory=dict)  # bucket → events

    def merge(self, other: Observation) -> Observation:
        """What both showed together: of batches, of tasks."""
        partitions, lateness = dict(self.partitions), dict(self.lateness)
        for number, seen in other.partitions.items():
            partitions[number] = seen.merge(partitions.get(number, seen))
        for number, count in other.lateness.items():
            lateness[number] = lateness.get(number, 0) + count
        return Observation(partitions, lateness)


@dataclass(frozen=True)
class _Partition:
    newest: Instant
    mark: Instant | None
    active: Instant


class Tracker:
    """The watermark of one stream as commits move it forward."""

    def __init__(self, definition: Watermark) -> None:
        self.definition = definition
        self.watermark: Instant = BEGINNING
        self.newest: Instant = BEGINNING
        self._partitions: dict[int, _Partition] = {}
        self._lateness: dict[int, int] = {}
        self._started: Instant | None = None
        self._quiet: frozenset[int] = frozenset()

    def know(self, partitions: Iterable[int], quiet: Iterable[int], now: Instant) -> None:
        """The source has these partitions: one that has shown nothing holds time back until it is idle.

        The `quiet` ones had nothing more to read in the epoch at hand, whatever is left of the others.
        """
        for number in partitions:
            self._partitions.setdefault(number, _Partition(BEGINNING, None, now))
        self._quiet = frozenset(quiet)

    def resume(self, now: Instant) -> None:
        """After a restart nothing is idle: silence while nobody listened does not count."""
        self._started = now
        self._partitions = {n: replace(p, active=now) for n, p in self._partitions.items()}

    def advance(
        self, observed: Observation, *, now: Instant, caught_up: bool = True, fixed: Instant | None = None
    ) -> None:
        """One commit: what it showed, when, whether the source is read to its end, and a watermark set from outside."""
        if self._started is None:
            self._started = now
        for number, seen in observed.partitions.items():
            before = self._partitions.get(number, _Partition(BEGINNING, None, now))
            both = seen.merge(PartitionTimes(before.newest, before.mark))
            self._partitions[number] = _Partition(both.newest, both.mark, now)
            self.newest = max(self.newest, seen.newest)
        self._remember(observed.lateness)
        estimate = self._estimate(now, caught_up)
        self.watermark = max(self.watermark, estimate, BEGINNING if fixed is None else fixed)

    def reached(self, percent: float) -> Instant:
        """The instant before which `percent` of the events should be there."""
        if self.newest == BEGINNING:
            return self.watermark
        return max(self.watermark, self.newest - self._quantile(percent))

    def left_out(self, now: Instant, caught_up: bool) -> bool:
        """Whether the whole stream is silent and has never had an event: it then holds no view back."""
        return (
            self.newest == BEGINNING and self._started is not None and caught_up and self._is_idle(self._started, now)
        )

    def is_idle(self, now: Instant, caught_up: bool) -> bool:
        """Whether the whole stream is silent, whatever came before."""
        active = [p.active for p in self._partitions.values()] or ([] if self._started is None else [self._started])
        return caught_up and bool(active) and self._is_idle(max(active), now)

    def _estimate(self, now: Instant, caught_up: bool) -> Instant:
        marks = {number: self._mark(p) for number, p in self._partitions.items()}
        active = [
            marks[number]
            for number, p in self._partitions.items()
            if not ((caught_up or number in self._quiet) and self._is_idle(p.active, now))
        ]
        if active:
            return min(active)
        if not marks or max(marks.values()) == BEGINNING:
            return BEGINNING
        # All are silent: event time goes on at the pace of the clock, from where the last one to speak left it.
        return max(marks.values()) + now - max(p.active for p in self._partitions.values())

    def _is_idle(self, active: Instant, now: Instant) -> bool:
        return self.definition.idle is not None and now - active >= self.definition.idle

    def _mark(self, partition: _Partition) -> Instant:
        if isinstance(self.definition, Punctuated):
            return BEGINNING if partition.mark is None else partition.mark
        if partition.newest == BEGINNING or isinstance(self.definition, Carried):
            return BEGINNING
        if isinstance(self.definition, Percentile):
            return partition.newest - self._quantile(self.definition.percent)
        assert isinstance(self.definition, Bounded)
        return partition.newest - self.definition.delay

    def _quantile(self, percent: float) -> Duration:
        """The smallest bound that at least `percent` of the measured lateness does not exceed."""
        total, seen = sum(self._lateness.values()), 0
        for number in sorted(self._lateness):
            seen += self._lateness[number]
            if seen * 100 >= percent * total:
                return BOUNDS[number]
        return 0

    def _remember(self, lateness: Mapping[int, int]) -> None:
        for number, count in lateness.items():
            self._lateness[number] = self._lateness.get(number, 0) + count
        while sum(self._lateness.values()) > MEMORY:
            self._lateness = {number: half for number, count in self._lateness.items() if (half := count // 2)}

    def moment(self) -> Mapping[str, Any]:
        """How it stands now, to `go_back` to if the commit at hand fails."""
        return {**vars(self), "_partitions": dict(self._partitions), "_lateness": dict(self._lateness)}

    def go_back(self, moment: Mapping[str, Any]) -> None:
        """What was taken in since then has not happened."""
        vars(self).update(moment)

    def snapshot(self) -> dict[str, Any]:
        """All that must survive a restart, as plain values."""
        return {
            "watermark": self.watermark,
            "newest": self.newest,
            "partitions": {number: (p.newest, p.mark, p.active) for number, p in self._partitions.items()},
            "lateness": dict(self._lateness),
            "started": self._started,
        }

    @classmethod
    def restore(cls, definition: Watermark, saved: Mapping[str, Any]) -> Tracker:
        tracker = cls(definition)
        tracker.watermark, tracker.newest = saved["watermark"], saved["newest"]
        tracker._partitions = {int(n): _Partition(*p) for n, p in saved["partitions"].items()}
        tracker._lateness = {int(n): count for n, count in saved["lateness"].items()}
        tracker._started = saved["started"]
        return tracker


class ViewTime:
    """A view's watermark: the smallest of its streams'. One that is idle and has never had an event is left out.

    Where such a stream gets events after all, the view's watermark waits for it and does not go back. `versioned`
    are streams that are read as tables: they are left out whenever they are idle.
    """

    def __init__(
        self, trackers: Mapping[str, Tracker], watermark: Instant = BEGINNING, versioned: Collection[str] = ()
    ) -> None:
        self.trackers, self.watermark = trackers, watermark
        self._versioned = frozenset(versioned)
        self._heard: list[Tracker] = []

    def advance(self, observed: Mapping[str, Observation], commit: Commit) -> None:
        """Moves the streams' watermarks by what a commit showed, by the clock, and by what was set from outside."""
        for name, tracker in self.trackers.items():
            tracker.advance(observed[name], now=commit.now, caught_up=commit.caught_up, fixed=commit.fixed.get(name))
        self.look(commit.now, dict.fromkeys(self.trackers, commit.caught_up))

    def look(self, now: Instant, caught_up: Mapping[str, bool]) -> None:
        """Follows the streams' watermarks, wherever they were moved."""
        self._heard = [t for name, t in self.trackers.items() if not self._left_out(name, now, caught_up[name])]
        self.watermark = max(self.watermark, min((t.watermark for t in self._heard), default=BEGINNING))

    def _left_out(self, name: str, now: Instant, caught_up: bool) -> bool:
        tracker = self.trackers[name]
        return tracker.left_out(now, caught_up) or (name in self._versioned and tracker.is_idle(now, caught_up))

    def moment(self) -> tuple[Instant, list[Tracker]]:
        """How it stands now, apart from its streams, to `go_back` to if the commit at hand fails."""
        return self.watermark, self._heard

    def go_back(self, moment: tuple[Instant, list[Tracker]]) -> None:
        """It has not moved since then."""
        self.watermark, self._heard = moment

    def resume(self, now: Instant) -> None:
        for tracker in self.trackers.values():
            tracker.resume(now)

    def reached(self, percent: float) -> Instant:
        """The instant before which `percent` of the events should be there, in all streams."""
        return max(self.watermark, min((t.reached(percent) for t in self._heard), default=BEGINNING))
