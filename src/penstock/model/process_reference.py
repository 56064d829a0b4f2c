"""The reference of a processor: what it gives out, one event at a time, with all cells in memory. The specification.

A commit goes through three steps: its events come in the order of the log, and those that the watermark in force when
it began has left behind are refused as late; then the watermark moves; then the timers fire that are due by it, and by
the clock.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.errors import RowError
from penstock.model.alone import check_alone
from penstock.model.cell import Cell
from penstock.model.commits import Commit, Event, Rejection
from penstock.model.intake import Intake
from penstock.model.order import key as ordered
from penstock.model.process import Process
from penstock.model.processing import OutputRow, Processing, late_reason
from penstock.model.processor import Timer
from penstock.model.side_tables import SideTable
from penstock.model.table_rows import Index
from penstock.model.time import Instant


@dataclass(frozen=True)
class Result:
    """What one commit gave: rows by key in their order, events that were refused, and timers that failed."""

    outputs: list[tuple[tuple[object, ...], OutputRow]]
    refused: list[Rejection]
    failed: list[tuple[tuple[object, ...], Timer, str]]


@dataclass(frozen=True)
class Arrival:
    """An event of a key, as user code has it, and its time."""

    key: tuple[object, ...]
    event: Event
    shown: Any
    at: Instant | None


class ProcessReference:
    """Runs a processor over a flow, commit by commit, with all cells in memory."""

    def __init__(self, process: Process) -> None:
        check_alone(process.view)
        self.process = process
        self.intake = Intake(process.view)
        self.cells: dict[object, tuple[tuple[object, ...], Cell]] = {}
        self._processing = Processing(process.shape)
        self._tables: dict[str, SideTable] = {}
        self._take_tables(dict.fromkeys(process.side_tables, ()))
        self._seen: set[object] = set()  # keys that do not begin any more

    def commit(self, commit: Commit) -> Result:
        """One epoch or tick."""
        result = Result([], [], [])
        self._take_tables(commit.tables)
        before = self.intake.time.watermark
        arrivals = []
        for element in self.intake.admit(commit, result.refused):
            at = element.origin.at if self.process.timed else None
            if self.process.is_late(at, before):
                assert at is not None
                reason = late_reason(at, before, self.process.allow_late)
                result.refused.append(Rejection("late", element.event, reason))
                continue
            values = [value[0] if value else None for value in element.aggregate_values]
            shown = self.process.shape.shown_event(values, element.sign)
            arrivals.append(Arrival(element.key, element.event, shown, at))
        if self.process.shape.takes_batches:
            self._together(arrivals, before, commit.now, result)
        else:
            for arrival in arrivals:
                self._event(arrival, before, commit.now, result)
        self.intake.advance(commit)
        self.intake.forget_ids()
        self._timers(self.intake.time.watermark, commit.now, result)
        return result

    def _event(self, arrival: Arrival, mark: Instant, now: Instant, result: Result) -> None:
        key, cell = self._cell(arrival.key, mark, now)
        try:
            outputs = self._processing.event(cell, key, arrival.shown, arrival.at, mark, now)
            result.outputs.extend((arrival.key, one) for one in outputs)
        except RowError as error:
            result.refused.append(Rejection("dead", arrival.event, error.message))

    def _together(self, arrivals: list[Arrival], mark: Instant, now: Instant, result: Result) -> None:
        """The events of each key at once; one by one where this fails."""
        by_key: dict[object, list[Arrival]] = {}
        for arrival in arrivals:
            by_key.setdefault(tuple(map(ordered, arrival.key)), []).append(arrival)
        for several in by_key.values():
            key, cell = self._cell(several[0].key, mark, now)
            events, ats = [one.shown for one in several], [one.at for one in several]
            try:
                outputs = self._processing.events(cell, key, events, ats, mark, now)
                result.outputs.extend((several[0].key, one) for one in outputs)
            except RowError:
                for arrival in several:
                    self._event(arrival, mark, now, result)

    def _cell(self, key: tuple[object, ...], mark: Instant, now: Instant) -> tuple[Any, Cell]:
        """A key as user code has it, and its cell."""
        shown, identity = self.process.shape.shown_key(key), tuple(map(ordered, key))
        if identity not in self.cells:
            self.cells[identity] = key, Cell()
            if self.process.initial is not None and identity not in self._seen:
                self._begin(shown, self.cells[identity][1], mark, now)
                self._seen.add(identity)
        return shown, self.cells[identity][1]

    def _begin(self, key: Any, cell: Cell, mark: Instant, now: Instant) -> None:
        """Puts what a key begins with into its cell."""
        initial = self.process.initial
        assert initial is not None
        table = initial.table
        known = self._tables[table.name] if initial.rows is None else SideTable(table, Index(table, initial.rows))
        cell.begin(now)
        user, _, _ = self._processing.enter(cell, mark, now)
        initial.put(user, known, key, self.process.shape.states)
        self._processing.leave()

    def _take_tables(self, tables: Mapping[str, Sequence[Sequence[object]]]) -> None:
        """Other versions of tables are read from here on."""
        for name, table in self.process.side_tables.items():
            if name in tables:
                self._tables[name] = SideTable(table, Index(table, tables[name]))
        self._processing.use_tables(self._tables)

    def _timers(self, mark: Instant, now: Instant, result: Result) -> None:
        for identity, (key, cell) in list(self.cells.items()):
            for timer, outputs in self._processing.timers(cell, self.process.shape.shown_key(key), mark, now):
                if isinstance(outputs, RowError):
                    result.failed.append((key, timer, outputs.message))
                else:
                    result.outputs.extend((key, one) for one in outputs)
            cell.prune(now)
            if cell.is_empty:
                del self.cells[identity]

    def state(self) -> Iterator[tuple[tuple[object, ...], dict[str, Any]]]:
        """What each key has: its states as code sees them."""
        states = self.process.shape.states
        for key, cell in self.cells.values():
            yield key, {name: states[name].shown(held) for name, held in cell.states.items() if name in states}
