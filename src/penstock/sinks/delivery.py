"""Delivery: brings the panes of the outbox to sinks, and removes from it what all of them have.

Every sink has a position of its own, and a thread of its own while there is something for it. A sink that is slow or
fails holds up neither epochs nor the others. One that fails is retried, with growing pauses.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import polars as pl

from penstock.errors import unknown
from penstock.model.rows import Rows
from penstock.model.time import Instant
from penstock.model.view import View
from penstock.sinks.base import Batch, OpenSink, Outbox, Sink, Target, delivery_names
from penstock.sinks.pane_reader import PaneReader
from penstock.sinks.position_writer import PositionWriter
from penstock.sinks.rows import Decoder, Row, RowDecoder, decoder, shaped
from penstock.store.arrivals import DeliveryTime
from penstock.store.catalog import check_delivery_name
from penstock.store.presented_rows import presented_rows
from penstock.store.reader import Reader

#: For how many seconds a receiver can ask to wait.
_LONGEST: Final = 3600.0
_log = logging.getLogger("penstock.sinks")


@dataclass(frozen=True)
class Failure:
    """Why a sink fails: the last error, and how often in a row it failed."""

    error: BaseException
    count: int


@dataclass
class _Way:
    """A sink with its position, the position that the store knows, and when it is tried next."""

    target: Target
    sink: Sink
    open: OpenSink
    decoder: Decoder | RowDecoder
    position: int
    saved: int
    owes: bool  # whether it has panes that the store does not know of
    commits: dict[int, Instant] = field(default_factory=dict)  # which of these it has delivered, and when
    delivered: int = 0
    counted: int = 0  # how much of that `deliver` has counted
    due: float = 0.0
    busy: bool = False
    again: bool = False  # whether more has come since it was last started
    lock: threading.Lock = field(default_factory=threading.Lock)
    thread: threading.Thread | None = None
    closing: threading.Event = field(default_factory=threading.Event)

    def wait(self, seconds: float) -> None:
        """Waits until it has nothing to do, at most for `seconds`."""
        with self.lock:  # a thread is started under it
            thread = self.thread
        if thread is not None:
            thread.join(seconds)

    def close(self, patience: float) -> None:
        """Ends after the batch at hand; a sink that takes longer than one's patience is left to itself."""
        self.closing.set()
        self.wait(patience)
        if self.thread is None or not self.thread.is_alive():
            self.open.close()


class Delivery:
    """Sinks by name, each with its view's name, its view and its definition.

    `commit_positions` and `trim` write to the store and are called from the sinks' threads: they take the lock that
    keeps epochs apart. `check_owner` raises where another process has taken over the store: it is called before each
    batch. `takes_over`: whether this process has done so, from one that may still live. `keep` is how many of the
    newest panes stay for subscribers; `patience` how many seconds `deliver` waits for slow sinks; `retry` the first
    and the longest while before another try. A sink of a view without new panes saves its position every
    `save_every` panes of other views.
    """

    def __init__(
        self,
        outbox: Outbox,
        sinks: Mapping[str, tuple[str, View | Rows, Sink]],
        *,
        commit_positions: Callable[[Mapping[str, int], Collection[DeliveryTime]], object],
        trim: Callable[[int], object],
        app: str = "",
        check_owner: Callable[[], object] = lambda: None,
        takes_over: bool = False,
        keep: int = 100_000,
        patience: float = 1.0,
        retry: tuple[float, float] = (0.5, 60.0),
        save_every: int = 10_000,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], Instant] = lambda: time.time_ns() // 1000,
    ) -> None:
        self._outbox, self._trim_outbox, self._positions = outbox, trim, PositionWriter(commit_positions)
        self._app, self._check_owner, self._takes_over = app, check_owner, takes_over
        self._keep, self._patience, self._retry, self._clock = keep, patience, retry, clock
        self._reader, self._save_every, self._now = PaneReader(outbox), save_every, now
        self._ways: dict[str, _Way] = {}
        self._failures: dict[str, Failure] = {}
        self._trimmed = 0
        try:
            for name, (view_name, view, sink) in sinks.items():
                self.add(name, view_name, view, sink)
        except BaseException:
            self.close()
            raise

    @property
    def failures(self) -> dict[str, Failure]:
        """The sinks that fail now, and why. Sinks that have recovered are left out."""
        return dict(self._failures)

    @property
    def refused(self) -> dict[str, int]:
        """How many panes sinks have set aside, by sink, where there are any."""
        return {name: way.open.refused for name, way in list(self._ways.items()) if way.open.refused}

    @property
    def positions(self) -> dict[str, int]:
        """The last pane that each sink is done with."""
        return {name: way.position for name, way in list(self._ways.items())}

    def add(self, name: str, view_name: str, view: View | Rows, sink: Sink) -> None:
        """Adds a sink at its position; a new one gets what the outbox holds. Rejects one that cannot be opened."""
        check_delivery_name(name, delivery_names(self._outbox))
        target = Target(name, view_name, view, self._outbox, self._app, self._check_owner, self._takes_over)
        saved, opened = self._outbox.position(name), sink.open(target)
        self._reader.forget()  # another view may have had the name
        self._ways[name] = _Way(
            target, sink, opened, decoder(view), max(saved, opened.position), saved, opened.position > saved
        )

    def sinks_of(self, view: str) -> list[str]:
        """The sinks that a view has."""
        return sorted(name for name, way in self._ways.items() if way.target.view == view)

    @property
    def targets(self) -> set[str]:
        """The views and flows that are delivered to some sink."""
        return {way.target.view for way in list(self._ways.values())}

    def drop(self, name: str) -> str:
        """Removes a sink; delivered data stays where it is. Returns the view or flow that was delivered to it."""
        if name not in self._ways:
            raise unknown("sink", name, self._ways)
        way = self._ways.pop(name)
        way.close(self._patience)
        self._failures.pop(name, None)
        return way.target.view

    def drop_view(self, view_name: str) -> None:
        """Removes the sinks of a dropped view: they would wait without end, and the outbox for them."""
        for name, way in list(self._ways.items()):
            if way.target.view == view_name:
                self.drop(name)

    def start(self) -> None:
        """Starts the sinks for which there is something, and returns at once. Others move on without a thread."""
        ways = list(self._ways.items())
        self._reader.refresh({way.target.view for _, way in ways})
        for name, way in ways:
            if self._clock() < way.due:
                continue
            with way.lock:
                if way.closing.is_set():
                    continue
                if way.busy:
                    way.again = True
                    continue
                newest, own = self._reader.look(way.target.view)
                if not (way.owes or own > way.position):
                    way.position = max(way.position, newest)
                    if way.position - way.saved < self._save_every:
                        continue
                    way.owes = True
                way.busy = True
                way.thread = threading.Thread(
                    target=self._work, args=(name, way), name=f"penstock-sink-{name}", daemon=True
                )
                way.thread.start()
        self._trim()

    def deliver(self) -> int:
        """Delivers to each sink what it lacks. Returns how many panes all sinks took since the last call."""
        ways = list(self._ways.values())  # others may come and go meanwhile
        self.start()
        end = time.monotonic() + self._patience
        for way in ways:
            way.wait(max(0.0, end - time.monotonic()))
        self._trim()
        count = 0
        for way in ways:
            count += way.delivered - way.counted
            way.counted = way.delivered
        return count

    def drain(self, seconds: float = 10.0) -> bool:
        """Delivers until every sink that does not fail has all panes; false if the time is over before."""
        end = time.monotonic() + seconds
        while True:
            self.deliver()
            behind = [name for name, position in self.positions.items() if position < self._reader.newest]
            if not set(behind) - set(self._failures):
                return True
            if time.monotonic() >= end:
                return False

    def close(self, patience: float = 10.0) -> None:
        """Ends after the current batches, for which it waits at most `seconds`."""
        ways, self._ways = self._ways, {}
        for way in ways.values():
            way.closing.set()
        end = time.monotonic() + patience
        for way in ways.values():
            way.close(max(0.0, end - time.monotonic()))

    # one sink

    def _work(self, name: str, way: _Way) -> None:
        """What a sink's thread does: delivers until there is nothing more, or it fails."""
        while True:
            done = self._attempt(name, way)
            with way.lock:
                if not (done and way.again) or way.closing.is_set():
                    way.busy = way.again = False
                    return
                way.again = False

    def _attempt(self, name: str, way: _Way) -> bool:
        try:
            self._run(way)
            self._failures.pop(name, None)
            return True
        except BaseException as error:  # in a thread of its own it would go unnoticed
            before = self._failures.get(name)
            count = 1 if before is None else before.count + 1
            first, longest = self._retry
            pause = min(longest, first * 2 ** min(count - 1, 30))
            pause = max(pause, min(getattr(error, "retry_after", None) or 0.0, _LONGEST))
            way.due = self._clock() + pause
            if not way.closing.is_set():
                self._failures[name] = Failure(error, count)
            _log.warning(
                "the sink '%s' failed (%d in a row), next try in %g s: %s: %s",
                name, count, pause, type(error).__name__, error,
            )  # fmt: skip
            return False

    def _run(self, way: _Way) -> None:
        """Batch by batch, until there is nothing more. What was taken counts even if the store cannot be updated."""
        if way.owes:
            self._save(way)
        while not way.closing.is_set():
            panes, last = self._next(way)
            if last == way.position:
                return
            rows = shaped(panes, way.sink.mode) if panes.height else panes
            if rows.height:
                self._check_owner()
                way.open.take(Batch(panes["id"][0], panes["id"][-1], self._rows(way, rows)))
                way.delivered += rows.height
                way.owes = True
                shown = rows if way.sink.mode == "append" else panes  # other modes replace panes by later ones
                way.commits |= dict.fromkeys(shown["commit"].unique(), self._now())
            way.position = last
            if way.owes or last - way.saved >= self._save_every:
                self._save(way)

    def _next(self, way: _Way) -> tuple[pl.DataFrame, int]:
        """The next panes of the sink's view, no more than it takes at once, and the id up to which that is all."""
        if way.sink.mode == "complete":
            return self._reader.ids(way.target.view, way.position)
        panes, last = self._reader.panes(way.target.view, way.position, way.sink.rows)
        if way.sink.whole_commits and panes.height == way.sink.rows:
            panes = _whole_commits(panes)
            last = int(panes["id"][-1])
        return panes, last

    def _rows(self, way: _Way, panes: pl.DataFrame) -> Sequence[Row]:
        if way.sink.mode != "complete" or isinstance(way.decoder, RowDecoder):
            return way.decoder.panes(panes)
        order = [*way.target.key_names, "window_start", "window_end"]
        assert isinstance(self._outbox, Reader)
        return way.decoder.table(presented_rows(self._outbox, way.target.view, order))

    def _save(self, way: _Way) -> None:
        position = way.position
        deliveries = [DeliveryTime(way.target.sink, commit, at) for commit, at in way.commits.items()]
        self._positions.save(way.target.sink, position, deliveries)
        way.commits.clear()
        way.saved, way.owes = position, False

    # the outbox

    def _trim(self) -> None:
        """Removes the blocks that every sink is done with, but for the newest panes; not a few at a time."""
        through = min([self._reader.newest - self._keep, *self.positions.values()])
        if through - self._trimmed >= max(1, self._keep // 10):
            self._trim_outbox(through)
            self._trimmed = through


def _whole_commits(panes: pl.DataFrame) -> pl.DataFrame:
    """Panes without those of the last commit, of which more may follow; all, if there is only that one."""
    before = panes.filter(pl.col("commit") < panes["commit"][-1])
    return before if before.height else panes
