"""The rows of both sides of a join on the reference: those of a commit that are on time, and how time moves."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from penstock.model.commits import Commit, Rejection
from penstock.model.intake import Element, Intake
from penstock.model.join import StreamJoin, late_reason
from penstock.model.order import exact, key
from penstock.model.time import Instant
from penstock.model.watermarks import Observation, ViewTime

#: Where a row comes from: source, partition, offset, and its number among the rows of that event.
Position = tuple[int, int, int, int]


@dataclass(eq=False)
class JoinRow:
    """A row of a side, and how many partners it has. A retraction must have the same identity."""

    key: tuple[object, ...] | None  # None where a part of it is null: it has no partner
    at: Instant
    values: dict[str, object]
    identity: tuple[object, ...]
    position: Position
    partners: int = 0


def taken_back(row: JoinRow, waiting: list[JoinRow], inserted: set[JoinRow]) -> JoinRow | None:
    """The row that a retraction takes back: the last one of this commit or, if it has none, of those before."""
    same = [other for other in waiting if other.identity == row.identity]
    return max(same, key=lambda other: (other in inserted, other.position)) if same else None


class JoinIntake:
    """What comes to a join."""

    def __init__(self, join: StreamJoin) -> None:
        self.join = join
        self._intakes = [Intake(join.view(side)) for side in (0, 1)]
        left, right = (intake.trackers for intake in self._intakes)
        left |= {name: tracker for name, tracker in right.items() if name in left}  # one for a stream on both sides
        self._time = ViewTime({**left, **right}, versioned=join.versioned)

    @property
    def watermark(self) -> Instant:
        return self._time.watermark

    def admitted(self, side: int, commit: Commit, refused: list[Rejection]) -> list[tuple[JoinRow, Element]]:
        """The rows of a side that are on time. Of those that could never come out nothing is kept."""
        before = self.watermark
        rows: list[tuple[JoinRow, Element]] = []
        names = {source.name for source in self._intakes[side].view.input.sources}
        events = tuple(event for event in commit.events if event.stream in names)
        numbers: Counter[tuple[str, int, int]] = Counter()
        for element in self._intakes[side].admit(Commit(commit.now, events, tables=commit.tables), refused):
            event, at = element.event, element.origin.at
            number = numbers[event.stream, event.partition, event.offset]
            numbers[event.stream, event.partition, event.offset] += 1
            row = self._row(side, element, number)
            if at < before:
                refused.append(Rejection("late", event, late_reason(at, before)))
            elif row.key is not None or self.join.gives_alone(side):
                rows.append((row, element))
        return rows

    def _row(self, side: int, element: Element, number: int) -> JoinRow:
        event, at = element.event, element.origin.at
        columns, compared = self.join.columns(side), self.join.compared(side)
        inputs = [inputs[0] if inputs else None for inputs in element.aggregate_values]
        values = dict(zip(columns, inputs, strict=False))
        keys = tuple(key(value) for value in element.key)
        identity = (keys, at, tuple(exact(values[name]) for name in compared))
        source = [stream.name for stream in self.join.inputs].index(event.stream)
        position = (source, event.partition, event.offset, number)
        return JoinRow(None if None in element.key else keys, at, values, identity, position)

    def advance(self, commit: Commit) -> None:
        """Moves the watermark, after the rows of both sides were taken."""
        observed: dict[str, Observation] = {}
        for intake in self._intakes:
            observed |= {name: Observation(seen, intake._lateness[name]) for name, seen in intake._observed.items()}
        self._time.advance(observed, commit)
        for intake in self._intakes:
            intake.forget_ids()


def once(refused: list[Rejection]) -> list[Rejection]:
    """Rejected events, each once for a reason."""
    unique = {(r.kind, r.event.stream, r.event.partition, r.event.offset, r.reason): r for r in refused}
    return list(unique.values())
