"""Processors: user code with state and timers for each key, one event at a time.

    class Sessions(ps.Processor):
        output = "user string, clicks bigint, at timestamp"
        clicks = ps.value("bigint", default=0)

        def on_event(self, key, event, time):
            self.clicks += 1
            self.set_timer(time + timedelta(minutes=10), name="end")

        def on_timer(self, key, timer):
            yield {"user": key, "clicks": self.clicks, "at": timer.at}
            del self.clicks

The same class runs on Spark and, in tests, without it. It must decide by its arguments, its state, `self.now` and
`self.watermark` alone: an epoch that comes again after a failure must do the same again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

from penstock.errors import DefinitionError, RowError, unknown
from penstock.model.cell import EVENT, PROCESSING, Cell, TimerId
from penstock.model.time import BEGINNING, END, Duration, Instant, duration, instant, to_datetime

if TYPE_CHECKING:
    from penstock.model.side_tables import SideTable

Clock: TypeAlias = Literal["event", "processing"]


@dataclass(frozen=True)
class Timer:
    """A timer that fires: its name, if it has one, when it was due, and by which clock."""

    name: str | None
    at: datetime
    clock: Clock = "event"


class Events(list[Any]):
    """Events of one key that came together, in their order; `times` are their event times."""

    def __init__(self, events: Iterable[Any], times: Sequence[datetime | None]) -> None:
        super().__init__(events)
        self.times = times


@dataclass
class Moment:
    """What user code sees while it handles one event or one timer.

    `give` takes a row for an output, `fail` the reason of something that failed while the rest goes on.
    """

    cell: Cell
    at: Instant
    mark: Instant
    now: Instant
    give: Callable[[str | None, object], None]
    fail: Callable[[str], None]


class Processor:
    """The base class of processors. `output` is the schema of its rows, `sides` those of side outputs by name."""

    output: ClassVar[str]
    sides: ClassVar[Mapping[str, str]] = {}
    #: Whether it cannot do anything about rows that are taken back.
    final_rows_only: ClassVar[bool] = False
    #: How far what it gives out may lie behind the watermark, where the definition does not say.
    usual_hold: ClassVar[Duration | None] = None
    #: The pattern that it finds, if Penstock made it for one.
    finds: ClassVar[str | None] = None
    #: The condition of the alert that it watches, if Penstock made it for one.
    alerts_when: ClassVar[str | None] = None

    _cell: Cell | None = None
    _moment: Moment | None = None
    _tables: Mapping[str, SideTable] = MappingProxyType({})

    def open(self) -> None:
        """Called once before the first event, to create expensive objects."""

    def on_event(self, key: Any, event: Any, time: Any) -> Iterable[Any] | None:
        """An event of a key. Rows are yielded, or emitted with `emit`."""
        raise NotImplementedError

    def on_events(self, key: Any, events: Events) -> Iterable[Any] | None:
        """All events of a key in a commit, in their order. Where a class defines it, `on_event` is not called.

        How many events come together depends on how commits were cut; what the code does must not. If it fails, the
        events come again one by one, so that only those on which it fails are dead letters.
        """
        raise NotImplementedError

    def on_timer(self, key: Any, timer: Timer) -> Iterable[Any] | None:
        """A timer that this key has set is due."""
        return None

    # what user code calls

    @property
    def now(self) -> datetime:
        """The clock of the machine, as the commit that brought the event recorded it."""
        return to_datetime(self._there.now)

    @property
    def watermark(self) -> datetime | None:
        """No more events older than this are expected; None before the first estimate, the year 9999 at the end."""
        mark = self._there.mark
        if mark >= END:
            return datetime.max.replace(tzinfo=UTC)
        return None if mark <= BEGINNING else to_datetime(mark)

    def emit(self, row: Mapping[str, Any] | None = None, /, **columns: Any) -> None:
        """Emits a row."""
        self._there.give(None, {**(row or {}), **columns})

    def emit_to(self, side: str, row: Mapping[str, Any] | None = None, /, **columns: Any) -> None:
        """Emits a row to a side output."""
        self._there.give(side, {**(row or {}), **columns})

    def set_timer(
        self,
        at: datetime | None = None,
        *,
        after: str | timedelta | None = None,
        clock: Clock = "event",
        name: str | None = None,
    ) -> None:
        """Sets a timer: `at` an instant, or `after` a duration, from the event's time or from now.

        A timer of event time fires when the watermark has reached it, one of processing time by the clock. To set one
        with a name again moves it; those without are distinguished by their time.
        """
        there = self._moment or self._there
        if at.__class__ is datetime and name.__class__ is str and clock == EVENT and after is None and at.tzinfo is UTC:
            there.cell.moved[name] = at
            return
        if (at is None) == (after is None) or (clock != EVENT and clock != PROCESSING):
            raise RowError("a timer needs an instant or a delay", hint="set_timer(after='10 minutes')")
        if after is not None:
            due = (there.at if clock == EVENT else there.now) + duration(after)
        else:
            assert at is not None
            due = instant(at)
        there.cell.set_timer((clock, due if name is None else name), due)

    def cancel_timer(self, timer: str | datetime, *, clock: Clock = "event") -> None:
        """Cancels a timer, by its name or by its instant, if there is one."""
        self._there.cell.set_timer((clock, timer if isinstance(timer, str) else instant(timer)), None)

    @property
    def timers(self) -> list[Timer]:
        """The timers that this key has, in the order of their times."""
        timers = sorted(self._there.cell.timers.items(), key=lambda timer: (timer[1], str(timer[0])))
        return [shown_timer(timer, at) for timer, at in timers]

    def table(self, name: str) -> SideTable:
        """One of the `tables` that the processor was given, in the version of this commit.

        `self.table("prices").get(item)` is a row, or None; `self.table("prices").rows()` are all rows.
        """
        table = self._tables.get(name)
        if table is None:
            raise unknown("table of the processor", name, self._tables)
        return table.at(self._there.at)

    def clear(self) -> None:
        """Forgets all state and all timers of this key."""
        cell = self._there.cell
        for name in list(cell.states):
            cell.put(name, None)
        for timer in list(cell.timers):
            cell.set_timer(timer, None)

    @property
    def _there(self) -> Moment:
        if self._moment is None:
            raise DefinitionError("state and time are available during an event only", hint="use it in on_event")
        return self._moment


def shown_timer(timer: TimerId, at: Instant) -> Timer:
    """A timer of a cell as user code sees it."""
    clock, name = timer
    return Timer(name if isinstance(name, str) else None, to_datetime(at), "event" if clock == EVENT else "processing")
