"""The reference of a processor: what it gives out, one event at a time, with all cells in memory. The specification.

A commit goes through three steps: its events come in the order of the log, and those that the watermark in force when
it began has left behind are refused as late; then the watermark moves; then the timers fire that are due by it, and by
the clock.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from penstock.errors import RowError
from penstock.model.cell import Cell
from penstock.model.commits import Commit, Event, Refused
from penstock.model.intake import Intake
from penstock.model.order import key as ordered
from penstock.model.process import Process
from penstock.model.processing import Given, Processing, late_reason
from penstock.model.processor import Timer
from penstock.model.time import Instant


@dataclass(frozen=True)
class Result:
    """What one commit gave: rows by key in their order, events that were refused, and timers that failed."""

    given: list[tuple[tuple[object, ...], Given]]
    refused: list[Refused]
    failed: list[tuple[tuple[object, ...], Timer, str]]


class ProcessReference:
    """Runs a processor over a flow, commit by commit, with all cells in memory."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.intake = Intake(process.view)
        self.cells: dict[object, tuple[tuple[object, ...], Cell]] = {}
        self._processing = Processing(process.shape)

    def commit(self, commit: Commit) -> Result:
        """One epoch or tick."""
        result = Result([], [], [])
        before = self.intake.time.watermark
        elements = self.intake.admit(commit, result.refused)
        for element in elements:
            at = element.origin.at if self.process.timed else None
            if self.process.is_late(at, before):
                assert at is not None
                reason = late_reason(at, before, self.process.allow_late)
                result.refused.append(Refused("late", element.event, reason))
                continue
            values = [value[0] if value else None for value in element.aggregate_values]
            self._event(element.key, element.event, values, at, before, commit.now, result)
        self.intake.advance(commit)
        self.intake.forget_ids()
        self._timers(self.intake.time.watermark, commit.now, result)
        return result

    def _event(
        self, key: tuple[object, ...], event: Event, values: list[Any], at: Instant | None, mark: Instant,
        now: Instant, result: Result,
    ) -> None:  # fmt: skip
        shape = self.process.shape
        _, cell = self.cells.setdefault(tuple(map(ordered, key)), (key, Cell()))
        try:
            given = self._processing.event(cell, shape.shown_key(key), shape.shown_event(values), at, mark, now)
            result.given.extend((key, one) for one in given)
        except RowError as error:
            result.refused.append(Refused("dead", event, error.message))

    def _timers(self, mark: Instant, now: Instant, result: Result) -> None:
        for identity, (key, cell) in list(self.cells.items()):
            for timer, found in self._processing.timers(cell, self.process.shape.shown_key(key), mark, now):
                if isinstance(found, RowError):
                    result.failed.append((key, timer, found.message))
                else:
                    result.given.extend((key, one) for one in found)
            cell.prune(now)
            if cell.is_empty:
                del self.cells[identity]

    def state(self) -> Iterator[tuple[tuple[object, ...], dict[str, Any]]]:
        """What each key has: its states as code sees them."""
        states = self.process.shape.states
        for key, cell in self.cells.values():
            yield key, {name: states[name].shown(held) for name, held in cell.states.items() if name in states}
