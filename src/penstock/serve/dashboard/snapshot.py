"""What all pages show at one moment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock.dataflow.graph import Graph
from penstock.model.time import Instant
from penstock.store.freshness import Freshness
from penstock.store.long_calls import LongCall


@dataclass(frozen=True)
class StreamNow:
    """A stream: the log it reads, what was counted of it, and how many events a second come."""

    name: str
    log: str
    counters: Mapping[str, int]
    watermark: Instant | None
    behind: int | None
    rate: float

    @property
    def events(self) -> int:
        return self.counters.get("events", 0)


@dataclass(frozen=True)
class ViewNow:
    """A view: the streams and views that feed it, and how many panes a second it fires."""

    name: str
    definition: str
    columns: Mapping[str, str]
    keys: Sequence[str]
    has_windows: bool
    streams: Sequence[str]
    watermark: Instant | None
    rests: bool
    rate: float
    views: Sequence[str] = ()  # that it reads

    @property
    def in_time(self) -> bool:
        """Whether its windows lie in time, not in numbers of elements."""
        return self.has_windows and self.columns["window_start"] == "timestamp"

    @property
    def numbers(self) -> list[str]:
        """The columns of values that a chart can show."""
        names = list(self.columns)
        values = names[names.index("window_end") + 1 : -1]
        return [name for name in values if self.columns[name].partition("(")[0] in _NUMBERS]


_NUMBERS = {"tinyint", "smallint", "int", "bigint", "float", "double", "decimal"}


@dataclass(frozen=True)
class SinkNow:
    """A sink: the view whose panes it gets, where that is known, and how many it does not have yet."""

    name: str
    view: str | None
    position: int
    behind: int
    rate: float


@dataclass(frozen=True)
class CommitNow:
    """A commit: an epoch with its events and the seconds of its parts, a tick or a swap.

    `late` is how many events were late, None where the commit does not say; an event may be late for several views
    (`late_pairs`). A stream that is made from others has read `inputs`, of which `late_inputs` were late.
    """

    number: int
    kind: str
    stream: str
    epoch: int | None
    at: Instant
    rows: int
    panes: int
    late: int | None
    parts: Mapping[str, float]
    late_pairs: int | None = None
    inputs: int | None = None
    late_inputs: int = 0

    @property
    def read(self) -> int:
        """How many events it has read."""
        return self.rows if self.inputs is None else self.inputs

    @property
    def completeness(self) -> float | None:
        """The percentage of the events that it has read which were not late.

        Where a stream is made from others: those that it took, times those of its own rows that all views took.
        """
        if not self.read or self.late is None:
            return None
        if self.inputs is None:
            return 100.0 * (1 - min(self.late / self.rows, 1))
        made, late = self.rows - self.late_inputs, self.late - self.late_inputs
        return 100.0 * (1 - min(self.late_inputs / self.inputs, 1)) * (1 - min(late / made, 1) if made > 0 else 1)


@dataclass(frozen=True)
class MarkNow:
    """Where a watermark stood after an epoch."""

    at: Instant
    sources: str
    watermark: Instant

    @property
    def lag(self) -> float:
        """Seconds behind the clock."""
        return (self.at - self.watermark) / 1_000_000


@dataclass(frozen=True)
class DelayNow:
    """How long the events of one commit took to get there, in seconds."""

    at: Instant
    stream: str
    median: float
    high: float


@dataclass(frozen=True)
class PaneNow:
    """The newest pane of a view."""

    id: int
    commit: int
    kind: str
    timing: str
    index: int
    final: bool
    key: str
    at: Instant | None


@dataclass(frozen=True)
class TableNow:
    """The newest rows of a view, as the API answers them, and its newest pane."""

    rows: Sequence[Mapping[str, Any]]
    more: bool
    pane: PaneNow | None


@dataclass(frozen=True)
class Snapshot:
    """All of it. `graph` is what the app has noted of itself. `missing` says why there is nothing to show."""

    commit: int = 0
    committed: Instant | None = None
    panes: int = 0
    streams: Mapping[str, StreamNow] = field(default_factory=dict)
    views: Mapping[str, ViewNow] = field(default_factory=dict)
    sinks: Mapping[str, SinkNow] = field(default_factory=dict)
    commits: Sequence[CommitNow] = ()
    marks: Sequence[MarkNow] = ()
    refused: Sequence[Mapping[str, Any]] = ()
    generations: Sequence[Mapping[str, Any]] = ()
    audits: Sequence[Mapping[str, Any]] = ()
    files: Sequence[Mapping[str, Any]] = ()
    tables: Mapping[str, TableNow] = field(default_factory=dict)
    missing: str | None = None
    graph: Graph | None = None
    freshness: Freshness = field(default_factory=Freshness)
    delays: Sequence[DelayNow] = ()
    long_calls: Sequence[LongCall] = ()  # user code that does not get on

    @property
    def events(self) -> int:
        return sum(stream.events for stream in self.streams.values())

    def counted(self, kind: str) -> int:
        """How many events were refused so: late_events, duplicate, dead; or `late`, once for each view."""
        return sum(stream.counters.get(kind, 0) for stream in self.streams.values())
