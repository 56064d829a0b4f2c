"""Runs a processor's code over the events and timers of keys, with its cells packed.

The events of a key run without a way back first, which is fast. If the code fails on one of them, the cell is unpacked
again, and they run once more, one by one: an event on which the code fails has then not happened.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, repeat
from typing import Any

from penstock.errors import RowError
from penstock.kernel.operators.process_cells import CellFormat
from penstock.kernel.operators.process_code import fast_object
from penstock.kernel.operators.process_events import KeyedEvents
from penstock.model.cell import Cell
from penstock.model.counters import Counts
from penstock.model.process import Process
from penstock.model.processing import OutputRow, Processing
from penstock.model.processor import Events, Timer
from penstock.model.running_code import running
from penstock.model.side_tables import SideTable
from penstock.model.table_rows import Index
from penstock.model.time import BEGINNING, Instant, instant


@dataclass
class Cells:
    """Cells as tuples, in the order of their keys (None: empty), and when something is due in some."""

    tuples: list[tuple[Any, ...] | None] = field(default_factory=list)
    due: list[tuple[int, Instant | None, Instant | None]] = field(default_factory=list)  # key, by watermark, by clock


@dataclass
class EventsResult:
    """What events put out: rows, and for each the number of the event; failures; and the cells after them."""

    outputs: list[OutputRow] = field(default_factory=list)
    causes: list[int] = field(default_factory=list)
    dead: list[tuple[int, str]] = field(default_factory=list)
    cells: Cells = field(default_factory=Cells)

    def drop_from(self, number: int) -> None:
        """Forgets what this event and later ones put out."""
        while self.causes and self.causes[-1] >= number:
            self.causes.pop()
            self.outputs.pop()


@dataclass
class TimersResult:
    """What timers put out: rows, with the number of the key and when each was due; failures; the cells after them.

    A row is due no earlier than the rows before it of the same key, so that this order is theirs.
    """

    outputs: list[OutputRow] = field(default_factory=list)
    causes: list[tuple[int, Instant]] = field(default_factory=list)
    failed: list[tuple[int, Instant, str, str]] = field(default_factory=list)
    cells: Cells = field(default_factory=Cells)


class Runner:
    """Runs one processor's code. It has the object of the user's class, and one cell at a time."""

    def __init__(self, process: Process) -> None:
        self._shape, self._initial = process.shape, process.initial
        self._name = getattr(process.processor, "__name__", type(process.processor).__name__)
        self._method = "on_events" if process.shape.takes_batches else "on_event"
        self._format = CellFormat(process.shape.states)
        self._user = fast_object(process.processor)
        self._user.__dict__.update(self._format.constants)
        self._processing = Processing(process.shape, self._user, self._format.names)
        self._cell = Cell()
        self._first: SideTable | None = None  # what keys begin with

    def use_tables(self, tables: Mapping[str, SideTable]) -> None:
        """The versions of tables that user code sees from here on, by name."""
        self._processing.use_tables(tables)
        if self._initial is not None and self._initial.rows is None:
            self._first = tables[self._initial.table.name]
        elif self._initial is not None and self._first is None:
            self._first = SideTable(self._initial.table, Index(self._initial.table, self._initial.rows or ()))

    # events

    def events(
        self, batch: KeyedEvents, keys: Sequence[Any], packed: Sequence[bytes | None], mark: Instant, now: Instant,
        counts: Counts,
    ) -> EventsResult:  # fmt: skip
        """Runs the events of keys, on the cells that these have."""
        result = EventsResult()
        with running(f"{self._name}.{self._method}", result.cells.tuples, keys):
            self._run_events(batch, keys, packed, mark, now, counts, result)
        return result

    def _run_events(
        self, batch: KeyedEvents, keys: Sequence[Any], packed: Sequence[bytes | None], mark: Instant, now: Instant,
        counts: Counts, result: EventsResult,
    ) -> None:  # fmt: skip
        cell, cells, values = self._cell, result.cells.tuples, self._user.__dict__
        load, plain_tuple, new_counts = self._format.load, self._format.plain_tuple, counts.new
        ats = repeat(now) if batch.ats is None else batch.ats
        flow = zip(range(len(batch.events)), batch.events, batch.times, ats)  # noqa: B905
        run, begins = self._caller(result, mark, now), self._initial is not None
        self._empty(now)
        start = 0
        for key, count, stored in zip(keys, batch.counts, self._unpacked(packed), strict=True):
            load(stored, values, cell)
            if stored is None and begins:
                self._begin(key)
            events = islice(flow, count)
            try:
                run(key, events)
                if new_counts:
                    counts.keep()
            except Exception:
                deque(events, maxlen=0)
                result.drop_from(start)
                counts.drop()
                self._empty(now)
                load(stored, values, cell)
                if stored is None and begins:
                    self._begin(key)
                self._again(key, batch, range(start, start + count), mark, now, result, counts)
                run = self._caller(result, mark, now)
            start += count
            if cell.states or cell.timers:
                self._store(result.cells, now)
            else:
                cells.append(plain_tuple(values))
        self._processing.leave()

    def _caller(self, result: EventsResult, mark: Instant, now: Instant) -> Callable[[Any, Any], None]:
        """A function that runs events of one key, on the cell at hand."""
        user, moment, emitted = self._processing.enter(self._cell, mark, now)
        row_of, on_event, on_events = self._shape.outputs.main.row, user.on_event, user.on_events
        outputs, causes = result.outputs, result.causes

        def take_emitted(number: int) -> None:
            outputs.extend(emitted)
            causes.extend([number] * len(emitted))
            emitted.clear()

        def one_by_one(key: Any, events: Iterator[tuple[int, Any, Any, Instant]]) -> None:
            for number, event, time, at in events:
                moment.at = at
                rows = on_event(key, event, time)
                if rows is not None:
                    for row in rows:
                        if emitted:
                            take_emitted(number)
                        outputs.append((None, row_of(row), at))
                        causes.append(number)
                if emitted:
                    take_emitted(number)

        def together(key: Any, events: Iterator[tuple[int, Any, Any, Instant]]) -> None:
            numbers, some, times, ats = zip(*events, strict=True)
            moment.at = ats[-1]
            rows = on_events(key, Events(some, times))
            if rows is not None:
                for row in rows:
                    emitted.append((None, row_of(row), ats[-1]))
            take_emitted(numbers[-1])

        return together if self._shape.takes_batches else one_by_one

    def _again(
        self, key: Any, batch: KeyedEvents, numbers: range, mark: Instant, now: Instant, result: EventsResult,
        counts: Counts,
    ) -> None:  # fmt: skip
        """Runs events one by one; those on which the code fails have not happened."""
        for number in numbers:
            at = None if batch.ats is None else batch.ats[number]
            try:
                rows = self._processing.event(self._cell, key, batch.events[number], at, mark, now)
            except RowError as error:
                counts.drop()
                result.dead.append((number, error.message))
            else:
                counts.keep()
                result.outputs += rows
                result.causes += [number] * len(rows)

    # timers

    def timers(
        self, keys: Sequence[Any], packed: Sequence[bytes], mark: Instant, now: Instant, counts: Counts
    ) -> TimersResult:
        """Fires the timers of keys that are due, and drops what is gone by now."""
        result = TimersResult()
        with running(f"{self._name}.on_timer", result.cells.tuples, keys):
            self._run_timers(keys, packed, mark, now, counts, result)
        return result

    def _run_timers(
        self, keys: Sequence[Any], packed: Sequence[bytes], mark: Instant, now: Instant, counts: Counts,
        result: TimersResult,
    ) -> None:  # fmt: skip
        self._empty(now)
        for number, (key, stored) in enumerate(zip(keys, self._unpacked(packed), strict=True)):
            self._format.load(stored, self._user.__dict__, self._cell)
            latest = BEGINNING
            for timer, outcome in self._processing.timers(self._cell, key, mark, now):
                latest = max(latest, instant(timer.at))
                if isinstance(outcome, RowError):
                    counts.drop()
                    result.failed.append((number, latest, self._timer_text(key, timer), outcome.message))
                else:
                    counts.keep()
                    result.outputs += outcome
                    result.causes += [(number, latest)] * len(outcome)
            self._store(result.cells, now)

    def _timer_text(self, key: Any, timer: Timer) -> str:
        values = self._shape.key_values(key)
        identity = {"key": json.loads(self._shape.key_text(values)), "timer": timer.name}
        return json.dumps({**identity, "at": timer.at.isoformat(), "clock": timer.clock})

    def packed(self, cells: Cells) -> list[bytes | None]:
        """Cells as bytes."""
        tuples = cells.tuples
        if self._initial is not None:
            tuples = [self._format.empty if one is None else one for one in tuples]
        return self._format.packed(tuples)

    # the cell at hand

    def _begin(self, key: Any) -> None:
        """Sets the states that a key begins with. From then on it has a cell, if an empty one."""
        assert self._initial is not None
        assert self._first is not None
        self._initial.put(self._user, self._first, key, self._shape.states)

    def _unpacked(self, packed: Sequence[bytes | None]) -> Iterator[Sequence[Any] | None]:
        known = self._format.unpacked([one for one in packed if one is not None])
        if None not in packed:
            return known
        return (None if one is None else next(known) for one in packed)

    def _store(self, cells: Cells, now: Instant) -> None:
        """Packs the cell, and makes it ready for the next key."""
        cell = self._cell
        if cell.states:
            cell.prune(now)
        mark, clock = cell.next_due()
        if mark is not None or clock is not None:
            cells.due.append((len(cells.tuples), mark, clock))
        cells.tuples.append(self._format.cell_tuple(self._user.__dict__, cell))
        self._empty(now)

    def _empty(self, now: Instant) -> None:
        cell = self._cell
        cell.states, cell.timers = {}, {}
        cell.begin(now)
