"""The reference of a join of two streams: its specification, one event at a time, with all that waits in memory.

What a commit gives is the difference that it makes: a pair that comes and goes in the same commit does not come out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from penstock.model.commits import Commit, Rejection
from penstock.model.join import LEFT_ONLY, NOT_THERE, StreamJoin
from penstock.model.join_rows import JoinIntake, JoinRow, Position, once, taken_back
from penstock.model.time import Instant

#: Nulls stand last.
_NULL: Position = (1 << 62, 0, 0, 0)


_Pair = tuple[JoinRow | None, JoinRow | None]


@dataclass
class JoinOutput:
    """What a commit gave: rows, the sign of each, and events that were rejected."""

    rows: list[tuple[object, ...]] = field(default_factory=list)
    signs: list[int] = field(default_factory=list)
    refused: list[Rejection] = field(default_factory=list)


class JoinReference:
    """Runs a join commit by commit, with all events in memory."""

    def __init__(self, join: StreamJoin) -> None:
        self.join, self._intake = join, JoinIntake(join)
        self._waiting: tuple[list[JoinRow], list[JoinRow]] = ([], [])

    @property
    def watermark(self) -> Instant:
        return self._intake.watermark

    def commit(self, commit: Commit) -> JoinOutput:
        """One epoch or tick. Its insertions are taken before its retractions, wherever they stand in it."""
        refused: list[Rejection] = []
        elements = [self._intake.admitted(side, commit, refused) for side in (0, 1)]
        self._intake.advance(commit)
        matched = self._matched()
        pairs: Counter[_Pair] = Counter()
        inserted: set[JoinRow] = set()
        for side in (0, 1):
            for row, element in elements[side]:
                if element.sign > 0:
                    self._insert(side, row, pairs)
                    inserted.add(row)
        for side in (0, 1):
            for row, element in elements[side]:
                if element.sign < 0 and not self._retract(side, row, inserted, pairs):
                    refused.append(Rejection("dead", element.event, NOT_THERE))
        if self.join.how in LEFT_ONLY:
            pairs.clear()
        if self.join.how == "semi":
            pairs.update((row, None) for row in self._matched() - matched)
            pairs.subtract((row, None) for row in matched - self._matched())
        pairs.update(self._expired(self.watermark))
        return self._output(pairs, refused)

    # Pairs

    def _partners(self, side: int, row: JoinRow) -> Iterator[tuple[JoinRow, _Pair]]:
        for other in self._waiting[1 - side]:
            left, right = (row, other) if side == 0 else (other, row)
            if row.key is not None and row.key == other.key and self.join.meet(left.at, right.at):
                yield other, (left, right)

    def _insert(self, side: int, row: JoinRow, pairs: Counter[_Pair]) -> None:
        for other, pair in self._partners(side, row):
            row.partners, other.partners = row.partners + 1, other.partners + 1
            pairs[pair] += 1
        self._waiting[side].append(row)

    def _retract(self, side: int, row: JoinRow, inserted: set[JoinRow], pairs: Counter[_Pair]) -> bool:
        """Takes a row back; whether it was there."""
        gone = taken_back(row, self._waiting[side], inserted)
        if gone is None:
            return False
        for other, pair in self._partners(side, gone):
            other.partners -= 1
            pairs[pair] -= 1
        self._waiting[side].remove(gone)
        return True

    def _matched(self) -> set[JoinRow]:
        """Rows of the left that have a partner."""
        return {row for row in self._waiting[0] if row.partners}

    def _expired(self, mark: Instant) -> Iterator[_Pair]:
        """Forgets the rows for which no partner can come any more, and gives those that come out alone."""
        for side in (0, 1):
            for row in list(self._waiting[side]):
                if self.join.over(side, row.at) <= mark:
                    self._waiting[side].remove(row)
                    if not row.partners and self.join.gives_alone(side):
                        yield (row, None) if side == 0 else (None, row)

    # What comes out

    def _output(self, pairs: Counter[_Pair], refused: list[Rejection]) -> JoinOutput:
        def order(pair: _Pair) -> list[Position]:
            return [_NULL if row is None else row.position for row in pair]

        changed = sorted((pair for pair, change in pairs.items() if change), key=order)
        rows = [self._given(*pair) for pair in changed]
        return JoinOutput(rows, [pairs[pair] for pair in changed], once(refused))

    def _given(self, left: JoinRow | None, right: JoinRow | None) -> tuple[object, ...]:
        rows = ({} if left is None else left.values, {} if right is None else right.values)
        both = {**rows[1], **{name: value for name, value in rows[0].items() if value is not None}}
        return tuple((both if side == 2 else rows[side]).get(own) for _, side, own in self.join.gives)
