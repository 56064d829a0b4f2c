"""The reference of a join with a table that has versions: its specification, with all versions in memory.

An event waits until the watermark has passed its time. By then all versions up to its time are there, and those that
come later are late. So what comes out is final, and comes out in the order of event time.
"""

from __future__ import annotations

from penstock.model.commits import Commit, Rejection
from penstock.model.intake import Element
from penstock.model.join import NOT_THERE, StreamJoin
from penstock.model.join_reference import JoinOutput, JoinReference
from penstock.model.join_rows import JoinIntake, JoinRow, once, taken_back
from penstock.model.time import Instant


class AsOfReference:
    """Runs a join with versions commit by commit."""

    def __init__(self, join: StreamJoin) -> None:
        self.join, self._intake = join, JoinIntake(join)
        self._waiting: list[JoinRow] = []
        self._versions: list[JoinRow] = []

    @property
    def watermark(self) -> Instant:
        return self._intake.watermark

    def commit(self, commit: Commit) -> JoinOutput:
        """One epoch or tick. Its insertions are taken before its retractions, wherever they stand in it."""
        refused: list[Rejection] = []
        elements = [self._intake.admitted(side, commit, refused) for side in (0, 1)]
        self._intake.advance(commit)
        for rows, side in ((self._waiting, 0), (self._versions, 1)):
            refused += _take(rows, elements[side])
        ready = sorted(
            (row for row in self._waiting if row.at < self.watermark), key=lambda row: (row.at, row.position)
        )
        self._waiting = [row for row in self._waiting if row.at >= self.watermark]
        pairs = [(row, self._version(row)) for row in ready]
        joined = [self._given(row, version) for row, version in pairs if version is not None or self.join.how == "left"]
        return JoinOutput(joined, [1] * len(joined), once(refused))

    def _version(self, row: JoinRow) -> JoinRow | None:
        """The version that was valid at the time of an event: the newest up to it, the last one of several."""
        of_key = [one for one in self._versions if row.key is not None and one.key == row.key and one.at <= row.at]
        newest = max(of_key, key=lambda one: (one.at, one.position), default=None)
        is_gone = newest is not None and self.join.deleted is not None and newest.values[self.join.deleted] is True
        return None if is_gone else newest

    def _given(self, row: JoinRow, version: JoinRow | None) -> tuple[object, ...]:
        values = row.values, {} if version is None else version.values
        return tuple(values[1 if side == 1 else 0].get(own) for _, side, own in self.join.gives)


def _take(rows: list[JoinRow], elements: list[tuple[JoinRow, Element]]) -> list[Rejection]:
    """Puts new rows to those that are there, and removes those that are taken back; retractions that found none."""
    inserted = {row for row, element in elements if element.sign > 0}
    rows += [row for row, element in elements if element.sign > 0]
    refused = []
    for row, element in elements:
        if element.sign < 0:
            gone = taken_back(row, rows, inserted)
            if gone is None:
                refused.append(Rejection("dead", element.event, NOT_THERE))
            else:
                rows.remove(gone)
    return refused


def reference_of(join: StreamJoin) -> JoinReference | AsOfReference:
    """What runs a join on the reference."""
    return AsOfReference(join) if join.as_of else JoinReference(join)
