"""State that is in segments: what is listed of it, as the last commit left it.

>>> ids = ShardedState("clicks", "/app/segments", 8)
>>> ids.next_run
1
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from penstock.model.time import BEGINNING, Instant
from penstock.state.segment import Segment

_State = TypeVar("_State", bound="ShardedState")


@dataclass(frozen=True)
class ShardedState:
    """The segments of a view, or of the known ids of a stream, by its name. What is before `expired` is gone."""

    name: str
    root: str
    shards: int
    segments: tuple[Segment, ...] = ()
    expired: Instant = BEGINNING

    @property
    def next_run(self) -> int:
        """The age of the segments that the next commit writes."""
        return 1 + max((segment.run for segment in self.segments), default=0)

    def changed(self: _State, added: Sequence[Segment] = (), removed: Sequence[Segment] = ()) -> _State:
        """The same with other segments."""
        gone = set(removed)
        return replace(self, segments=(*(one for one in self.segments if one not in gone), *added))
