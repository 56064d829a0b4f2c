"""What one key of a processor has: entries of its states by their names, and timers. As JSON it is stored.

What user code does to a cell can be taken back, up to the last event.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from penstock.model.time import BEGINNING, Instant, instant

if TYPE_CHECKING:
    from penstock.model.state import State

#: A stored value, and when it does not exist (None: never).
Entry: TypeAlias = tuple[Any, Instant | None]
#: A timer by its clock, and its name or the instant at which it is due.
TimerId: TypeAlias = tuple[str, str | int]

EVENT: Final = "event"
PROCESSING: Final = "processing"


class Cell:
    """What one key has: entries by the name of their state, and timers. What user code does to it can be undone."""

    __slots__ = ("_timers", "_undo", "moved", "now", "states")

    def __init__(self) -> None:
        #: An entry, a list of entries, entries by key; bytes or JSON that nobody declares.
        self.states: dict[str, Any] = {}
        self._timers: dict[TimerId, Instant] = {}
        #: Timers of event time that were set lately, by name. Most are moved again before anybody looks at them.
        self.moved: dict[str, datetime] = {}
        self.now: Instant = BEGINNING
        self._undo: list[tuple[Any, Any, Any]] = []  # what was changed, where, and what was there before

    # changes

    def begin(self, now: Instant) -> None:
        """From here on what is done can be taken back."""
        self.now = now
        if self.moved:
            self._settle()
        self._undo.clear()

    def changes(self, held: Any, name: Any, before: Any) -> None:
        """Something changes: in a dictionary under a name, with what was there before; a list grows by one."""
        self._undo.append((held, name, before))

    def take_back(self) -> None:
        """Nothing of what was done since `begin` has happened."""
        self.moved.clear()
        for held, name, before in reversed(self._undo):
            if isinstance(held, list):
                held.pop()
            elif before is None:
                held.pop(name, None)
            else:
                held[name] = before
        self._undo.clear()

    def hold(self, name: str, held: Any) -> None:
        """Holds something, which is not None, under a name."""
        states = self.states
        self._undo.append((states, name, states.get(name)))
        states[name] = held

    def put(self, name: str, held: Any) -> None:
        """Replaces what is held under a name; None: nothing."""
        put_in(self.states, name, held, self)

    @property
    def timers(self) -> dict[TimerId, Instant]:
        """The timers, and when they are due."""
        if self.moved:
            self._settle()
        return self._timers

    @timers.setter
    def timers(self, timers: dict[TimerId, Instant]) -> None:
        self.moved.clear()
        self._timers = timers

    def set_timer(self, timer: TimerId, at: Instant | None) -> None:
        """Sets a timer, or takes it away."""
        put_in(self.timers, timer, at, self)

    def _settle(self) -> None:
        for name, at in self.moved.items():
            put_in(self._timers, (EVENT, name), instant(at), self)
        self.moved.clear()

    # time

    def is_gone(self, entry: Entry) -> bool:
        return entry[1] is not None and entry[1] <= self.now

    def next_timer(self, mark: Instant, now: Instant) -> tuple[TimerId, Instant] | None:
        """The timer that is to fire next: those of event time first, each by its time and then by its name."""
        best: tuple[tuple[bool, Instant, str], TimerId, Instant] | None = None
        for timer, at in self.timers.items():
            clock, name = timer
            if at <= (mark if clock == EVENT else now):
                order = clock != EVENT, at, str(name)
                if best is None or order < best[0]:
                    best = order, timer, at
        return None if best is None else best[1:]

    def next_due(self) -> tuple[Instant | None, Instant | None]:
        """When something is due: by the watermark, and by the clock."""
        mark = clock = None
        for (of, _), at in self.timers.items():
            if of == EVENT:
                mark = at if mark is None or at < mark else mark
            else:
                clock = at if clock is None or at < clock else clock
        if self.states:
            gone = [entry[1] for entry in self._entries() if entry[1] is not None]
            clock = min([*gone, *([] if clock is None else [clock])], default=None)
        return mark, clock

    def _entries(self) -> Iterator[Entry]:
        for held in self.states.values():
            if isinstance(held, tuple):
                yield held
            elif not isinstance(held, (str, bytes)):
                yield from held.values() if isinstance(held, dict) else held

    def prune(self, now: Instant) -> None:
        """Lets go of what is gone by now."""
        self.now = now
        for name, held in list(self.states.items()):
            if isinstance(held, dict):
                left: Any = {key: entry for key, entry in held.items() if not self.is_gone(entry)}
            elif isinstance(held, list):
                left = [entry for entry in held if not self.is_gone(entry)]
            else:
                left = None if isinstance(held, tuple) and self.is_gone(held) else held
            if left:
                self.states[name] = left
            else:
                del self.states[name]

    @property
    def is_empty(self) -> bool:
        return not self.states and not self.timers


def put_in(held: dict[Any, Any], name: Any, value: Any, cell: Cell) -> None:
    """Puts a value under a name, or takes it away (None), in a way that the cell can undo."""
    old = held.get(name)
    if value is None and name not in held:
        return
    cell.changes(held, name, old)
    if value is None:
        del held[name]
    else:
        held[name] = value


def dumped(cell: Cell, states: Mapping[str, State[Any]], beside: object = None) -> str:
    """A cell as JSON, with something beside it. What nobody declares stays as it was."""
    held = {
        (_stored_as(states[name]) if name in states else name): (
            states[name].dump(one) if name in states else json.loads(one)
        )
        for name, one in cell.states.items()
    }
    timers = [[clock, name, at] for (clock, name), at in cell.timers.items()]
    return json.dumps([held, timers, beside], separators=(",", ":"))


def loaded(text: str, states: Mapping[str, State[Any]]) -> tuple[Cell, Any]:
    """A cell from JSON, and what was beside it."""
    held, timers, beside = json.loads(text)
    cell = Cell()
    for stored, one in held.items():
        state = states.get(stored.partition(" ")[0])
        if state is not None and _stored_as(state) == stored:
            cell.states[state.name] = state.load(one)
        else:
            cell.states[stored] = json.dumps(one)
    cell.timers = {(clock, name): at for clock, name, at in timers}
    return cell, beside


def _stored_as(state: State[Any]) -> str:
    return f"{state.name} {state.shape}"
