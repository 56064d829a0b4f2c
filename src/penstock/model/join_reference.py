"""The reference of a join of two streams: its specification, one event at a time, with all that waits in memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from penstock.model.commits import Commit, Event, Refused
from penstock.model.expressions import bind, evaluate
from penstock.model.intake import Intake
from penstock.model.join import StreamJoin, late_reason
from penstock.model.time import BEGINNING, Instant
from penstock.model.watermarks import Observation, ViewTime


@dataclass
class _Held:
    """An event that waits for others: its key (None where one is null), its time and values; whether it found any."""

    key: tuple[object, ...] | None
    at: Instant
    row: dict[str, object]
    found: bool = False


@dataclass
class Gave:
    """What a commit gave: rows, and events that were refused."""

    rows: list[tuple[object, ...]] = field(default_factory=list)
    refused: list[Refused] = field(default_factory=list)


class JoinReference:
    """Runs a join commit by commit, with all events in memory."""

    def __init__(self, join: StreamJoin) -> None:
        self.join = join
        self._intakes = [Intake(join.view(side)) for side in (0, 1)]
        self._time = ViewTime({**self._intakes[0].trackers, **self._intakes[1].trackers})
        self._held: tuple[list[_Held], list[_Held]] = ([], [])

    def commit(self, commit: Commit) -> Gave:
        """One epoch or tick."""
        gave, before = Gave(), self._time.watermark
        observed: dict[str, Observation] = {}
        for side, intake in enumerate(self._intakes):
            names = {source.name for source in intake.view.input.sources}
            mine = Commit(
                commit.now, tuple(event for event in commit.events if event.stream in names), caught_up=commit.caught_up
            )
            for element in intake.admit(mine, gave.refused):
                values = [value[0] if value else None for value in element.aggregate_values]
                self._take(side, element.event, values, element.origin.at, before, gave)
            observed |= {n: Observation(intake._observed[n], intake._lateness[n]) for n in intake.trackers}
        self._time.advance(observed, commit)
        for intake in self._intakes:
            intake.forget_ids()
        self._expire(self._time.watermark, gave)
        return gave

    def _take(self, side: int, event: Event, values: list[Any], at: Instant, before: Instant, gave: Gave) -> None:
        if before > BEGINNING and at < before:
            gave.refused.append(Refused("late", event, late_reason(at, before)))
            return
        schema = (self.join.left, self.join.right)[side].schema
        assert schema is not None
        row = dict(zip(schema.names, values, strict=True))
        key = tuple(evaluate(bind(text, schema), row) for text in self.join.keys(side))
        mine = _Held(None if None in key else key, at, row)
        for other in self._held[1 - side]:
            pair = (mine, other) if side == 0 else (other, mine)
            if mine.key is not None and mine.key == other.key and self._meet(*pair):
                mine.found = other.found = True
                gave.rows.append(self._row(*pair))
        self._held[side].append(mine)

    def _meet(self, left: _Held, right: _Held) -> bool:
        window = self.join.window
        if window is not None:
            return window.slice_of(left.at) == window.slice_of(right.at)
        return self.join.earliest <= right.at - left.at <= self.join.latest

    def _row(self, left: _Held | None, right: _Held | None) -> tuple[object, ...]:
        rows = ({} if left is None else left.row, {} if right is None else right.row)
        both = {**rows[1], **{name: value for name, value in rows[0].items() if value is not None}}
        return tuple((both if side == 2 else rows[side]).get(own) for _, side, own in self.join.gives)

    def _expire(self, mark: Instant, gave: Gave) -> None:
        """Events for which none can come any more."""
        for side in (0, 1):
            for one in [held for held in self._held[side] if self.join.is_over(side, held.at, mark)]:
                self._held[side].remove(one)
                if not one.found and self.join.how in ("full", ("left", "right")[side]):
                    gave.rows.append(self._row(one, None) if side == 0 else self._row(None, one))
