"""A part of a processor's keys: their cells in a store by key, and a wheel that finds those with something due.

A slot of the wheel holds the keys that may have something due in a span of time, and the earliest instant at which one
has. Slots far off are wide; what a slot holds moves to narrower ones as time comes near. A timer that moves later
leaves its key where it is: when the slot is due, the key's cell says what to do. So a timer that each event moves costs
nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Protocol

from penstock.errors import RowError
from penstock.model.cell import EVENT, PROCESSING, Cell, dumped, loaded
from penstock.model.process import Process
from penstock.model.processing import Given, Processing, late_reason
from penstock.model.time import BEGINNING, SECOND, Instant

#: Up to how far off, and how wide slots are.
_WIDTHS: Final = (
    (3600 * SECOND, 10 * SECOND),
    (48 * 3600 * SECOND, 600 * SECOND),
    (60 * 86_400 * SECOND, 6 * 3600 * SECOND),
)
_WIDEST: Final = 10 * 86_400 * SECOND
#: The keys of a slot are stored so many together.
CHUNK: Final = 1_000


class Cells(Protocol):
    """Where a part of the keys lies: cells by key, keys by chunk of a slot, and the list of slots, all as text."""

    def get(self, keys: Sequence[str]) -> list[str | None]: ...
    def put(self, texts: Iterable[tuple[str, str | None]]) -> None: ...
    def slots(self, slots: Sequence[str]) -> list[str | None]: ...
    def put_slots(self, texts: Iterable[tuple[str, str | None]]) -> None: ...
    def index(self) -> str | None: ...
    def put_index(self, text: str) -> None: ...


class Arrived(NamedTuple):
    """An event of a key: the key as it is stored, the event as code has it, and its time."""

    key: str
    row: Any
    at: Instant | None


@dataclass
class Outcome:
    """What an epoch gave: rows in their order, and events and timers that were refused, with kind and reason."""

    rows: list[Given] = field(default_factory=list)
    refused: list[tuple[str, Arrived, str]] = field(default_factory=list)
    failed: list[tuple[str, str, str]] = field(default_factory=list)  # key, timer, reason


@dataclass
class _Held:
    """A cell that this epoch has looked at. `slots` says by clock where the wheel has its key."""

    cell: Cell
    slots: dict[str, str]
    text: str | None
    shown: Any


class Bucket:
    """Runs a processor on one part of the keys, commit by commit; `flush` stores what has changed."""

    def __init__(self, process: Process, processing: Processing, cells: Cells) -> None:
        self._process, self._processing, self._cells = process, processing, cells
        self._held: dict[str, _Held] = {}
        self._text = cells.index() or "{}"
        #: By slot: the earliest instant at which something is due there, and how many keys the store has of it.
        self._index: dict[str, list[int]] = json.loads(self._text)
        self._added: dict[str, list[str]] = {}
        self.outcome = Outcome()

    def commit(self, events: Sequence[Arrived], before: Instant, after: Instant, now: Instant) -> None:
        """One commit: its events in their order, then the timers that are due after it."""
        self.load(event.key for event in events)
        touched: dict[str, _Held] = {}
        process, known, handle = self._process, self._held, self._processing.event
        refused, given = self.outcome.refused, self.outcome.rows
        for event in events:
            key, row, at = event
            if process.is_late(at, before):
                assert at is not None
                refused.append(("late", event, late_reason(at, before, process.allow_late)))
                continue
            held = touched[key] = known[key]
            try:
                given += handle(held.cell, held.shown, row, at, before, now)
            except RowError as error:
                refused.append(("dead", event, error.message))
        for key, held in touched.items():
            self._place(key, held, after, now)
        for clock, time in ((EVENT, after), (PROCESSING, now)):
            for slot in [slot for slot, (at, _) in self._index.items() if slot[0] == clock[0] and at <= time]:
                self._turn(slot, clock, after, now)

    def _turn(self, slot: str, clock: str, mark: Instant, now: Instant) -> None:
        """A slot is due: its keys are looked at, and go where they have something due next."""
        keys = set(self._added.pop(slot, ()))
        _, count = self._index.pop(slot)
        chunks = [f"{slot}/{number}" for number in range(-(-count // CHUNK))]
        for text in self._cells.slots(chunks):
            keys.update(json.loads(text or "[]"))
        self._cells.put_slots((chunk, None) for chunk in chunks)
        self.load(keys)
        for key in sorted(keys):
            held = self._held[key]
            if held.slots.get(clock) != slot:
                continue  # it is elsewhere by now
            del held.slots[clock]
            self._fire(key, held, mark, now)
            self._place(key, held, mark, now)

    def _fire(self, key: str, held: _Held, mark: Instant, now: Instant) -> None:
        for timer, found in self._processing.timers(held.cell, held.shown, mark, now):
            if isinstance(found, RowError):
                told = {"key": json.loads(key), "timer": timer.name, "at": timer.at.isoformat(), "clock": timer.clock}
                self.outcome.failed.append((key, json.dumps(told), found.message))
            else:
                self.outcome.rows += found
        held.cell.prune(now)

    # the wheel

    def _place(self, key: str, held: _Held, mark: Instant, now: Instant) -> None:
        """Sees to it that the wheel looks at a key no later than something of it is due."""
        for clock, time in ((EVENT, mark), (PROCESSING, now)):
            at = held.cell.next_at(clock)
            slot = held.slots.get(clock)
            if at is None or (slot in self._index and self._index[slot][0] <= at):
                continue
            slot = held.slots[clock] = slot_of(clock, at, time)
            known = self._index.setdefault(slot, [at, 0])
            known[0] = min(known[0], at)
            self._added.setdefault(slot, []).append(key)

    @property
    def due(self) -> tuple[Instant | None, Instant | None]:
        """When something is due next: by the watermark, and by the clock."""
        event, clock = (
            min((at for slot, (at, _) in self._index.items() if slot[0] == of[0]), default=None)
            for of in (EVENT, PROCESSING)
        )
        return event, clock

    # cells

    def load(self, keys: Iterable[str]) -> None:
        """Gets the cells of keys, those that are not here yet, all at once."""
        shape = self._process.shape
        lacking = [key for key in dict.fromkeys(keys) if key not in self._held]
        for key, text in zip(lacking, self._cells.get(lacking), strict=True):
            cell, slots = (Cell(), {}) if text is None else loaded(text, shape.states)
            self._held[key] = _Held(cell, slots, text, shape.shown_key(shape.loaded_key(key)))

    def flush(self) -> None:
        """Stores what has changed."""
        self._cells.put(self._changed())
        for slot, keys in self._added.items():
            self._add(slot, keys)
        text = json.dumps(self._index)
        if text != self._text:
            self._cells.put_index(text)

    def _changed(self) -> Iterator[tuple[str, str | None]]:
        for key, held in self._held.items():
            text = None if held.cell.is_empty else dumped(held.cell, self._process.shape.states, held.slots)
            if text != held.text:
                yield key, text

    def _add(self, slot: str, keys: list[str]) -> None:
        """Adds keys to a slot; what it has already is not written again, but for the last chunk."""
        count = self._index[slot][1]
        whole = count - count % CHUNK
        if count > whole:
            (last,) = self._cells.slots([f"{slot}/{whole // CHUNK}"])
            keys = [*json.loads(last or "[]"), *keys]
        starts = range(0, len(keys), CHUNK)
        self._cells.put_slots((f"{slot}/{(whole + n) // CHUNK}", json.dumps(keys[n : n + CHUNK])) for n in starts)
        self._index[slot][1] = whole + len(keys)


def slot_of(clock: str, at: Instant, time: Instant) -> str:
    """The slot of an instant, seen from now: the clock's letter, its width in seconds, and its number."""
    far = at - time if time > BEGINNING else _WIDEST * 100
    width = next((width for limit, width in _WIDTHS if far < limit), _WIDEST)
    return f"{clock[0]}{width // SECOND}.{at // width}"
