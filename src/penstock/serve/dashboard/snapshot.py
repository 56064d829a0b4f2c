"""What all pages show at one moment."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from penstock.dataflow.graph import Graph
from penstock.dataflow.operator import INPUTS, LATE_INPUTS
from penstock.model.time import SECOND, Instant
from penstock.serve.alerts import AlertNow
from penstock.store.base import LATE_EVENTS
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
    epochs: int = 0

    @property
    def events(self) -> int:
        return self.counters.get("events", 0)

    @property
    def lag(self) -> float | None:
        """Seconds from its watermark to the clock; below zero it is ahead."""
        return None if self.watermark is None else time.time() - self.watermark / SECOND

    @property
    def completeness(self) -> float | None:
        """The percentage of its events that were not late.

        Of an operator's stream: of the rows that came to it, times those of its own rows that were not late above it.
        """
        late, late_inputs = self.counters.get(LATE_EVENTS, 0), self.counters.get(LATE_INPUTS, 0)
        came, own = self.counters.get(INPUTS, 0), self.events
        if not came and not own:
            return None
        taken = 1 - min(late_inputs / came, 1) if came else 1.0
        return 100.0 * taken * (1 - min((late - late_inputs) / own, 1) if own else 1.0)


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
    def shown_columns(self) -> Mapping[str, str]:
        """The columns that say something: a view without windows has no bounds, and is never final."""
        hidden = () if self.has_windows else ("window_start", "window_end", "final")
        return {name: kind for name, kind in self.columns.items() if name not in hidden}

    def is_whole(self, column: str) -> bool:
        """Whether a column holds whole numbers."""
        return self.columns.get(column) in _WHOLE

    @property
    def numbers(self) -> list[str]:
        """The columns of values that a chart can show."""
        names = list(self.columns)
        values = names[names.index("window_end") + 1 : -1]
        return [name for name in values if self.columns[name].partition("(")[0] in _NUMBERS]


_WHOLE = {"tinyint", "smallint", "int", "bigint"}
_NUMBERS = _WHOLE | {"float", "double", "decimal"}


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


def folded(commits: Sequence[CommitNow]) -> list[tuple[CommitNow, int]]:
    """Commits, with ticks one after the other as one: the newest of them with the panes of all, and how many."""
    rows: list[tuple[CommitNow, int]] = []
    for commit in commits:
        last, count = rows[-1] if rows else (None, 0)
        if last is not None and last.kind == commit.kind == "tick" and commit.number == last.number + 1:
            rows[-1] = replace(commit, panes=last.panes + commit.panes), count + 1
        else:
            rows.append((commit, 1))
    return rows


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
    """All of it. `graph` is what the app has noted of itself. `missing` says why there is nothing to show, `stopped`
    why the app does not run.
    """

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
    stopped: str | None = None
    graph: Graph | None = None
    freshness: Freshness = field(default_factory=Freshness)
    delays: Sequence[DelayNow] = ()
    alerts: Sequence[AlertNow] = ()
    long_calls: Sequence[LongCall] = ()  # user code that makes no progress

    @property
    def app(self) -> str:
        """The app's name, where it has noted one."""
        return "" if self.graph is None else self.graph.app

    @property
    def events(self) -> int:
        return sum(stream.events for stream in self.streams.values())

    def counted(self, kind: str) -> int:
        """How many events were refused so: late_events, duplicate, dead; or `late`, once for each view."""
        return sum(stream.counters.get(kind, 0) for stream in self.streams.values())
