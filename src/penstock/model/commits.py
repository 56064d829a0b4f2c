"""What goes into a commit and what comes out of it: events, panes, rows, and those that were refused.

A commit is an epoch (events came) or a tick (only time passed).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from penstock.model.time import Instant
from penstock.model.windows.base import Interval

Timing: TypeAlias = Literal["early", "on time", "late"]
Row: TypeAlias = Mapping[str, object]


@dataclass(frozen=True)
class Event:
    """One row of a stream's log, at its position."""

    stream: str
    row: Row
    partition: int
    offset: int


@dataclass(frozen=True)
class Commit:
    """One commit's input. `fixed`: watermarks set from outside; `caught_up`: the logs are read to their end.

    `tables` are those that are other from here on, with all their rows.
    """

    now: Instant
    events: tuple[Event, ...] = ()
    fixed: Mapping[str, Instant] = field(default_factory=dict)
    caught_up: bool = True
    resumed: bool = False  # the first commit after a restart
    tables: Mapping[str, tuple[tuple[object, ...], ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Pane:
    """One firing of one window: an insert, or the retraction of the pane that carried this index."""

    key: tuple[object, ...]
    window: Interval
    values: tuple[object, ...]
    kind: Literal["insert", "retract"]
    timing: Timing
    index: int
    final: bool


@dataclass(frozen=True)
class TableRow:
    """One row of a view's table: the accumulated value of a window, and whether it can still change."""

    key: tuple[object, ...]
    window: Interval
    values: tuple[object, ...]
    final: bool


#: Why an event is refused by its id; the same text on every engine.
DUPLICATE = "the id was accepted before"
TOO_OLD = "older than the horizon within which ids are known"
#: Why an event is late for a view that forgets keys.
FORGOTTEN = "older than the view's retention, and its key does not exist"


@dataclass(frozen=True)
class Rejection:
    """An event that did not count, or not in all of its windows, and why.

    `kind` is the stream it goes to: late, duplicate or dead letter. `missed` of its `windows` were closed.
    """

    kind: Literal["late", "duplicate", "dead"]
    event: Event
    reason: str
    missed: int = 0
    windows: int = 0
