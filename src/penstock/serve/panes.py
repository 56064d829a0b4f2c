"""Subscriptions: the panes of a view as they fire, to any number of clients, each at its own pace.

One reader a view asks the store for what is new and keeps the newest panes as they are sent. A client reads from there;
one that has fallen behind reads from the store's outbox by its position. Nothing is kept for a client, so a slow one
costs no memory and delays no other.
"""

from __future__ import annotations

import asyncio
import json
import time
from bisect import bisect_right
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any, Final

import polars as pl

from penstock.model.time import BEGINNING, END
from penstock.serve.askers import Askers, Question, ResultRows
from penstock.serve.errors import Answered
from penstock.serve.pulse import Pulse
from penstock.serve.shown import as_json, moment, pane_values
from penstock.serve.views import ViewEntry
from penstock.store.block import Block, json_panes
from penstock.store.segment_lookup import SegmentQuestion

#: How many bytes of the newest panes are kept for all clients of a view; a client gets as many at once.
_AT_ONCE: Final = 1 << 17
#: How many panes at once a client gets that reads from the outbox.
_CHUNK: Final = 500
#: How many blocks of a view are read at once.
_BLOCKS: Final = 4
#: Seconds after which a silent stream sends a keep-alive.
HEARTBEAT: Final = 15.0

_PANES: Final = """SELECT first, last, "commit", panes FROM __outbox WHERE last > ?1 AND view = ?2
    ORDER BY last LIMIT ?3"""
_COLUMNS: Final = ("id", "key", "start", "end", "values", "kind", "timing", "index", "final", "commit")
_STATE: Final = """SELECT (SELECT value FROM __meta WHERE name = 'panes'),
    coalesce((SELECT value FROM __meta WHERE name = 'trimmed'), 0), (SELECT coalesce(max(number), 0) FROM __commits),
    (SELECT id FROM __catalog WHERE kind = 'view' AND name = ?1)"""


def event(kind: str, data: Any, id: int | None = None) -> bytes:
    """One event as it is sent.

    >>> event("pane", {"n": 1}, 7)
    b'id: 7\\nevent: pane\\ndata: {"n":1}\\n\\n'
    """
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    head = "" if id is None else f"id: {id}\n"
    return f"{head}event: {kind}\ndata: {text}\n\n".encode("utf-8", "replace")


class Hub:
    """All subscriptions of a server."""

    def __init__(self, askers: Askers, pulse: Pulse, kept: int) -> None:
        self._askers, self._pulse, self._kept = askers, pulse, kept
        self._tails: dict[int, _Tail] = {}
        self._task: asyncio.Task[None] | None = None
        self.closing = asyncio.Event()

    @property
    def subscribers(self) -> dict[str, int]:
        """How many there are, by view."""
        return {tail.view.name: tail.clients for tail in self._tails.values()}

    async def begin(self, view: ViewEntry, last: int | None, snapshot: int | None) -> AsyncIterator[bytes]:
        """The events for a client; an error, before anything is sent, if panes after `last` are gone.

        With a `snapshot` the view's rows come first, if there are at most this many of them.
        """
        questions: list[Question | SegmentQuestion] = [Question(_STATE, [view.name])]
        if snapshot is not None:
            questions.append(_all_rows(view, snapshot))
        state, *table = await self._askers.own(*questions)
        newest, trimmed, commit, _ = state.rows[0]
        position = newest if last is None else last
        if not trimmed <= position <= newest:
            raise gone(view.name, position, trimmed, newest)
        if table and table[0].more:
            raise Answered(413, f"the view '{view.name}' has more than {snapshot} rows", hint="read it in pages first")
        return self._stream(view, position, newest, commit, table)

    async def _stream(
        self, view: ViewEntry, position: int, newest: int, commit: int, table: list[ResultRows]
    ) -> AsyncIterator[bytes]:
        tail = self._tail(view, newest)
        tail.clients += 1
        try:
            columns = [{"name": name, "type": kind} for name, kind in view.columns.items()]
            begun = {"view": view.name, "position": position, "commit": commit, "columns": columns}
            yield event("position", begun, position)
            for result in table:
                for row in as_json(view.columns, result.rows):
                    yield event("row", row)
            async for part in self._follow(tail, position):
                yield part
        finally:
            tail.clients -= 1
            if not tail.clients:
                self._tails.pop(view.id, None)

    async def _follow(self, tail: _Tail, position: int) -> AsyncIterator[bytes]:
        spoke = time.monotonic()
        while not self.closing.is_set():
            if position < tail.start:  # behind what is kept: from the outbox, at the client's pace
                try:
                    part, position = await self._older(tail, position)
                except Answered as error:
                    yield event("end", error.body)
                    return
            else:
                part, position = tail.after(position)
            if part:
                yield part
                spoke = time.monotonic()
            elif tail.ended is not None:
                yield event("end", tail.ended)
                return
            elif position >= tail.start:
                await tail.wait(max(0.0, min(1.0, spoke + HEARTBEAT - time.monotonic())))
                if time.monotonic() >= spoke + HEARTBEAT:
                    yield b": still here\n\n"
                    spoke = time.monotonic()
        yield event("end", {"error": "the server stops", "hint": "subscribe again with the last event's id"})

    async def _older(self, tail: _Tail, position: int) -> tuple[bytes, int]:
        panes, state = await self._askers.own(
            Question(_PANES, [position, tail.view.name, 1]), Question(_STATE, [tail.view.name])
        )
        newest, trimmed, _, _ = state.rows[0]
        if position < trimmed:
            raise gone(tail.view.name, position, trimmed, newest)
        if not panes.rows:
            return b"", tail.start  # none up to there
        events = self._events(panes, tail.view, position, _CHUNK)
        return b"".join(part for _, part in events), events[-1][0]

    # one reader for all

    def _tail(self, view: ViewEntry, position: int) -> _Tail:
        if view.id not in self._tails:
            self._tails[view.id] = _Tail(view, position, self._kept)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._read())
        return self._tails[view.id]

    async def _read(self) -> None:
        """Reads what is new for all views that have clients, as long as there are any."""
        while self._tails and not self.closing.is_set():
            more = False
            with suppress(Answered):  # the store may be away for a while: it is asked again
                more = await self._read_once()
            if not more:
                await self._pulse.wait(1.0)
        for tail in self._tails.values():
            tail.wake()

    async def _read_once(self) -> bool:
        tails = list(self._tails.values())
        asked = [Question(_PANES, [tail.end, tail.view.name, _BLOCKS]) for tail in tails]
        answers = await self._askers.own(*asked, *(Question(_STATE, [tail.view.name]) for tail in tails))
        more = False
        for tail, panes, state in zip(tails, answers, answers[len(tails) :], strict=False):
            newest, trimmed, _, id = state.rows[0]
            if id != tail.view.id:
                tail.ended = {"error": f"the view '{tail.view.name}' was dropped"}
                tail.wake()
                continue
            if newest < tail.end:
                tail.ended = {"error": "the store was set back to an earlier commit", "hint": "subscribe again"}
                tail.wake()
                continue
            full = len(panes.rows) == _BLOCKS
            if trimmed > tail.end:  # those in between are gone: a subscriber there gets an error
                tail.clear(trimmed)
            tail.add(self._events(panes, tail.view, tail.end), None if full else newest)
            more = more or full
        return more

    def _events(self, blocks: ResultRows, view: ViewEntry, after: int, limit: int = 1 << 30) -> list[tuple[int, bytes]]:
        """The panes of blocks after an id, at most `limit`, each with its id as it is sent."""
        events: list[tuple[int, bytes]] = []
        for row in blocks.rows:
            panes = Block(*row, root=self._askers.segments_at).panes
            rows = json_panes(panes.filter(pl.col("id") > after).head(limit)).select(_COLUMNS)
            events += [(pane[0], _pane(pane, view)) for pane in rows.iter_rows()]
        return events


class _Tail:
    """The newest panes of a view, up to `kept` bytes: all that have an id above `start`, up to `end`."""

    def __init__(self, view: ViewEntry, position: int, kept: int) -> None:
        self.view, self._kept = view, kept
        self.start = self.end = position
        self.clients = 0
        self.ended: dict[str, Any] | None = None
        self._ids: list[int] = []
        self._parts: list[bytes] = []
        self._size = 0
        self._changed = asyncio.Event()

    def add(self, panes: list[tuple[int, bytes]], end: int | None) -> None:
        """More panes; with an `end` they are all up to there."""
        for id, part in panes:
            self._ids.append(id)
            self._parts.append(part)
            self._size += len(part)
        self.end = max(self.end, end if end is not None else panes[-1][0])
        if self._size > self._kept:
            self._forget()
        if panes:
            self.wake()

    def _forget(self) -> None:
        """Drops half of the kept panes at once."""
        place = 0
        while self._size > self._kept // 2:
            self._size -= len(self._parts[place])
            place += 1
        self.start = self._ids[place - 1]
        del self._ids[:place], self._parts[:place]

    def clear(self, through: int) -> None:
        self._ids, self._parts, self._size = [], [], 0
        self.start = self.end = through

    def after(self, position: int) -> tuple[bytes, int]:
        """The next panes, not too many at once, and the position after them."""
        first = place = bisect_right(self._ids, position)
        size = 0
        while place < len(self._ids) and size < _AT_ONCE:
            size += len(self._parts[place])
            place += 1
        return b"".join(self._parts[first:place]), self._ids[place - 1] if place > first else position

    def wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def wait(self, seconds: float) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._changed.wait(), seconds)


def _all_rows(view: ViewEntry, most: int) -> Question | SegmentQuestion:
    """All rows of a view, if there are at most `most`."""
    if view.in_segments:
        return SegmentQuestion(view.name, most=most, places=False)
    columns = ", ".join(f'"{name}"' for name in view.columns)
    return Question(f"SELECT {columns} FROM ({view.select}) r", (), most)


def gone(view: str, position: int, trimmed: int, newest: int) -> Answered:
    """Panes that a client has not seen are not there any more."""
    return Answered(
        410, f"the panes of '{view}' after {position} are no longer available",
        detail=f"the outbox holds those from {trimmed + 1} to {newest}",
        hint="subscribe again with ?snapshot=true, without Last-Event-ID",
    )  # fmt: skip


def _pane(row: tuple[Any, ...], view: ViewEntry) -> bytes:
    id, key, start, end, values, kind, timing, index, final, commit = row
    counted = view.columns["window_start"] != "timestamp"
    bounds = [None if bound in (BEGINNING, END) else bound if counted else moment(bound) for bound in (start, end)]
    data = {
        **dict(pane_values(key, view.columns)),
        "window_start": bounds[0],
        "window_end": bounds[1],
        **dict(pane_values(values, view.columns)),
        "kind": kind, "timing": timing, "index": index, "final": bool(final), "pane": id, "commit": commit,
    }  # fmt: skip
    return event("pane", data, id)
