"""The reference of a join of two streams: its specification, one event at a time, with all that waits in memory.

What a commit gives is the difference that it makes: a pair that comes and goes in the same commit does not come out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from penstock.model.commits import Commit, Refused
from penstock.model.intake import Element, Intake
from penstock.model.join import LEFT_ONLY, NOT_THERE, StreamJoin, late_reason
from penstock.model.order import exact, key
from penstock.model.time import Instant
from penstock.model.watermarks import Observation, ViewTime

#: Where a row comes from: source, partition, offset, and its number among the rows of that event.
Position = tuple[int, int, int, int]
#: Nulls stand last.
_NULL: Position = (1 << 62, 0, 0, 0)


@dataclass(eq=False)
class _Waiting:
    """A row that waits for partners, and how many it has found. A retraction must have the same identity."""

    key: tuple[object, ...] | None  # None where a part of it is null: it has no partner
    at: Instant
    values: dict[str, object]
    identity: tuple[object, ...]
    position: Position
    found: int = 0


_Pair = tuple[_Waiting | None, _Waiting | None]


@dataclass
class JoinOutput:
    """What a commit gave: rows, the sign of each, and events that were rejected."""

    rows: list[tuple[object, ...]] = field(default_factory=list)
    signs: list[int] = field(default_factory=list)
    refused: list[Refused] = field(default_factory=list)


class JoinReference:
    """Runs a join commit by commit, with all events in memory."""

    def __init__(self, join: StreamJoin) -> None:
        self.join = join
        self._intakes = [Intake(join.view(side)) for side in (0, 1)]
        left, right = (intake.trackers for intake in self._intakes)
        left |= {name: tracker for name, tracker in right.items() if name in left}  # one for a stream on both sides
        self._time = ViewTime({**left, **right})
        self._waiting: tuple[list[_Waiting], list[_Waiting]] = ([], [])

    @property
    def watermark(self) -> Instant:
        return self._time.watermark

    def commit(self, commit: Commit) -> JoinOutput:
        """One epoch or tick. Its insertions are taken before its retractions, wherever they stand in it."""
        before, refused = self._time.watermark, list[Refused]()
        elements = [self._admitted(side, commit, before, refused) for side in (0, 1)]
        self._advance(commit)
        matched = self._matched()
        pairs: Counter[_Pair] = Counter()
        inserted: set[_Waiting] = set()
        for side in (0, 1):
            for row, element in elements[side]:
                if element.sign > 0:
                    self._insert(side, row, pairs)
                    inserted.add(row)
        for side in (0, 1):
            for row, element in elements[side]:
                if element.sign < 0 and not self._retract(side, row, inserted, pairs):
                    refused.append(Refused("dead", element.event, NOT_THERE))
        if self.join.how in LEFT_ONLY:
            pairs.clear()
        if self.join.how == "semi":
            pairs.update((row, None) for row in self._matched() - matched)
            pairs.subtract((row, None) for row in matched - self._matched())
        pairs.update(self._expired(self._time.watermark))
        return self._output(pairs, refused)

    def _admitted(
        self, side: int, commit: Commit, before: Instant, refused: list[Refused]
    ) -> list[tuple[_Waiting, Element]]:
        """The rows of a side that are on time. Of those that could never come out nothing is kept."""
        found: list[tuple[_Waiting, Element]] = []
        names = {source.name for source in self._intakes[side].view.input.sources}
        events = tuple(event for event in commit.events if event.stream in names)
        numbers: Counter[tuple[str, int, int]] = Counter()
        for element in self._intakes[side].admit(Commit(commit.now, events, tables=commit.tables), refused):
            event, at = element.event, element.origin.at
            number = numbers[event.stream, event.partition, event.offset]
            numbers[event.stream, event.partition, event.offset] += 1
            row = self._row(side, element, number)
            if at < before:
                refused.append(Refused("late", event, late_reason(at, before)))
            elif row.key is not None or self.join.gives_alone(side):
                found.append((row, element))
        return found

    def _row(self, side: int, element: Element, number: int) -> _Waiting:
        event, at = element.event, element.origin.at
        columns, compared = self.join.columns(side), self.join.compared(side)
        inputs = [inputs[0] if inputs else None for inputs in element.aggregate_values]
        values = dict(zip(columns, inputs, strict=False))
        keys = tuple(key(value) for value in element.key)
        identity = (keys, at, tuple(exact(values[name]) for name in compared))
        source = [stream.name for stream in self.join.inputs].index(event.stream)
        position = (source, event.partition, event.offset, number)
        return _Waiting(None if None in element.key else keys, at, values, identity, position)

    def _advance(self, commit: Commit) -> None:
        observed: dict[str, Observation] = {}
        for intake in self._intakes:
            observed |= {name: Observation(seen, intake._lateness[name]) for name, seen in intake._observed.items()}
        self._time.advance(observed, commit)
        for intake in self._intakes:
            intake.forget_ids()

    # Pairs

    def _partners(self, side: int, row: _Waiting) -> Iterator[tuple[_Waiting, _Pair]]:
        for other in self._waiting[1 - side]:
            left, right = (row, other) if side == 0 else (other, row)
            if row.key is not None and row.key == other.key and self.join.meet(left.at, right.at):
                yield other, (left, right)

    def _insert(self, side: int, row: _Waiting, pairs: Counter[_Pair]) -> None:
        for other, pair in self._partners(side, row):
            row.found, other.found = row.found + 1, other.found + 1
            pairs[pair] += 1
        self._waiting[side].append(row)

    def _retract(self, side: int, row: _Waiting, inserted: set[_Waiting], pairs: Counter[_Pair]) -> bool:
        """Takes a row back: the last one of this commit or, if it has none, the last one of those before."""
        same = [other for other in self._waiting[side] if other.identity == row.identity]
        if not same:
            return False
        gone = max(same, key=lambda other: (other in inserted, other.position))
        for other, pair in self._partners(side, gone):
            other.found -= 1
            pairs[pair] -= 1
        self._waiting[side].remove(gone)
        return True

    def _matched(self) -> set[_Waiting]:
        """Rows of the left that have a partner."""
        return {row for row in self._waiting[0] if row.found}

    def _expired(self, mark: Instant) -> Iterator[_Pair]:
        """Forgets the rows for which no partner can come any more, and gives those that come out alone."""
        for side in (0, 1):
            for row in list(self._waiting[side]):
                if self.join.over(side, row.at) <= mark:
                    self._waiting[side].remove(row)
                    if not row.found and self.join.gives_alone(side):
                        yield (row, None) if side == 0 else (None, row)

    # What comes out

    def _output(self, pairs: Counter[_Pair], refused: list[Refused]) -> JoinOutput:
        def order(pair: _Pair) -> list[Position]:
            return [_NULL if row is None else row.position for row in pair]

        changed = sorted((pair for pair, change in pairs.items() if change), key=order)
        rows = [self._given(*pair) for pair in changed]
        once = {(r.kind, r.event.stream, r.event.partition, r.event.offset, r.reason): r for r in refused}
        return JoinOutput(rows, [pairs[pair] for pair in changed], list(once.values()))

    def _given(self, left: _Waiting | None, right: _Waiting | None) -> tuple[object, ...]:
        rows = ({} if left is None else left.values, {} if right is None else right.values)
        both = {**rows[1], **{name: value for name, value in rows[0].items() if value is not None}}
        return tuple((both if side == 2 else rows[side]).get(own) for _, side, own in self.join.gives)
