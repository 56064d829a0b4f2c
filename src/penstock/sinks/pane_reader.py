"""Reads panes of the outbox for all sinks: what is new is read once, and each block is decoded once for its sinks."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from itertools import takewhile
from threading import Lock, RLock
from typing import Final

import polars as pl

from penstock.sinks.base import Outbox, newest_pane
from penstock.store.block import Block

#: The number of blocks that are looked up at once.
_AT_ONCE: Final = 256
#: A position after all panes: no block is in memory.
_NOWHERE: Final = 1 << 63


class PaneReader:
    """Tracks which views have new panes, so that no sink queries without need. Threads of sinks share it.

    The newest blocks stay in memory, up to `keep` panes of all views. A sink that is further behind reads the store.
    """

    def __init__(self, outbox: Outbox, keep: int = 50_000) -> None:
        self._outbox, self._keep = outbox, keep
        #: The newest pane of all views.
        self.newest = 0
        self._views: set[str] = set()
        self._newest_of: dict[str, int] = {}
        #: The blocks of these views that end after `_since`, in order.
        self._recent: deque[tuple[str, Block]] = deque()
        self._since = _NOWHERE
        self._lock = Lock()
        self._refreshing = RLock()  # one at a time reads what is new, or forgets it

    def refresh(self, views: Collection[str]) -> None:
        """Reads what is new of these views."""
        with self._refreshing:
            self._refresh(views)

    def _refresh(self, views: Collection[str]) -> None:
        newest = newest_pane(self._outbox)  # before the blocks: all up to this one are there
        if not self._views.issuperset(views):
            self.forget()
        self._views = set(views)
        if newest <= self.newest or not views:
            self.newest = newest
            return
        blocks = self._outbox.new_blocks(sorted(views), self.newest, _AT_ONCE)
        with self._lock:
            if len(blocks) < _AT_ONCE:
                self._since = min(self._since, self.newest)
                self._recent.extend(blocks)
                self._newest_of |= {view: block.last for view, block in blocks}
            else:
                self._recent.clear()
                self._since = newest
                self._newest_of |= self._outbox.newest_blocks(self.newest)
            self.newest = newest
            self._shrink()

    def forget(self) -> None:
        """The next look starts over: there are sinks of other views."""
        with self._refreshing, self._lock:
            self._recent.clear()
            self._newest_of.clear()
            self.newest, self._since = 0, _NOWHERE

    def _shrink(self) -> None:
        count = sum(len(block) for _, block in self._recent)
        while self._recent and (count > self._keep or len(self._recent) > _AT_ONCE):
            _, oldest = self._recent.popleft()
            self._since, count = oldest.last, count - len(oldest)

    def look(self, view: str) -> tuple[int, int]:
        """The newest pane of all views, and of this one, when the outbox was last looked at: both of one moment."""
        with self._lock:
            return self.newest, self._newest_of.get(view, 0)

    def ids(self, view: str, after: int) -> tuple[pl.DataFrame, int]:
        """The ids and commits of all panes of a view after an id, and the id up to which that is all."""
        (newest, own), last, parts = self.look(view), after, [pl.DataFrame(schema={"id": pl.Int64, "commit": pl.Int64})]
        while own > last and (heads := self._outbox.heads(view, last, _AT_ONCE)):
            for head in heads:
                ids = pl.int_range(max(head.first, after + 1), head.last + 1, dtype=pl.Int64, eager=True)
                parts.append(pl.select(id=ids, commit=pl.lit(head.commit, pl.Int64)))
            last = heads[-1].last
        return pl.concat(parts), max(last, newest)

    def panes(self, view: str, after: int, limit: int) -> tuple[pl.DataFrame, int]:
        """At most `limit` panes of a view after an id, and the id up to which these are all."""
        (newest, own), last, parts = self.look(view), after, list[pl.DataFrame]()
        while limit and own > last and (blocks := self._blocks(view, last, limit)):
            for block in blocks:
                if parts and block.panes.schema != parts[0].schema:
                    return pl.concat(parts), last
                part = block.panes.slice(max(0, last + 1 - block.first), limit)
                parts.append(part)
                limit, last = limit - part.height, int(part["id"][-1])
                if not limit:
                    return pl.concat(parts), last
        return pl.concat(parts) if parts else pl.DataFrame(schema={"id": pl.Int64}), max(last, newest)

    def _blocks(self, view: str, after: int, limit: int) -> list[Block]:
        """The next blocks of a view, with about `limit` panes."""
        with self._lock:
            if after >= self._since:
                newer = takewhile(lambda one: one[1].last > after, reversed(self._recent))
                return [block for name, block in newer if name == view][::-1]
        heads = self._outbox.heads(view, after, _AT_ONCE)
        count = number = 0
        while number < len(heads) and count < limit:
            count += heads[number].last - max(heads[number].first - 1, after)
            number += 1
        return self._outbox.blocks(view, after, number)
