"""How much the state of a view takes that is in segments, from what the store lists: no file is opened.

>>> StateSize(16, 12, 1_288_490_189, 10_000_000, 13_000_000).text()
'in segments: 16 shards, 12 segments, 1.2 GB, at most 13,000,000 rows, space 1.3 times'
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from penstock.state.segment import Segment
from penstock.store.connection import Connection
from penstock.store.segments import all_segments, shardings

IN_STORE: Final = "in the store"


@dataclass(frozen=True)
class StateSize:
    """What segments take. Rows that hold are not counted, because that means to read them all.

    `rows` counts all versions of rows except deletions: an upper bound of the view's rows. `lowest` estimates the rows
    that hold by the largest run: compaction keeps what lies above it smaller than it is.
    """

    shards: int
    segments: int
    bytes: int
    lowest: int
    rows: int

    @property
    def space(self) -> float:
        """How many versions of rows there are for each row of the largest run."""
        return self.rows / self.lowest if self.lowest else 1.0

    def text(self) -> str:
        """As people read it."""
        return (
            f"in segments: {self.shards} shards, {self.segments:,} segments, {_size(self.bytes)}, "
            f"at most {self.rows:,} rows, space {self.space:.1f} times"
        )


def state_sizes(connection: Connection) -> dict[str, StateSize]:
    """By view, of those whose state is in segments. An older store has none."""
    if "__sharded" not in connection.tables():
        return {}
    segments: dict[str, list[Segment]] = {}
    for segment in all_segments(connection):
        segments.setdefault(segment.owner, []).append(segment)
    views = {name for (name,) in connection.rows("SELECT name FROM __views").iter_rows()}
    return {
        owner: _state_size(sharding.shards, segments.get(owner, []))
        for owner, sharding in shardings(connection).items()
        if owner in views
    }


def _state_size(shards: int, segments: Iterable[Segment]) -> StateSize:
    every = list(segments)
    runs: dict[tuple[str, int], int] = {}
    for segment in every:
        if segment.kind in ("rows", "final"):
            run = segment.kind, segment.run
            runs[run] = runs.get(run, 0) + segment.rows - segment.gone
    largest = {kind: max(rows for (other, _), rows in runs.items() if other == kind) for kind, _ in runs}
    return StateSize(
        shards, len(every), sum(one.length for one in every), sum(largest.values()), sum(runs.values())
    )  # fmt: skip


def _size(size: int) -> str:
    for unit, bits in (("GB", 30), ("MB", 20), ("KB", 10)):
        if size >= 1 << bits:
            return f"{size / (1 << bits):.1f} {unit}"
    return f"{size} B"
