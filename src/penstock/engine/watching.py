"""A run looks after its queries: one that died of a fault that passes is started again, any other ends the run."""

from __future__ import annotations

import threading
from typing import Final

from penstock.engine.changing import Changing, is_replayable
from penstock.engine.clock import Steady
from penstock.engine.derived import derived
from penstock.engine.errors import RunError, essence, failed
from penstock.engine.retry import Fault, Retries, is_disputed, passes
from penstock.engine.standby import mended
from penstock.store import StoreError
from penstock.store.connection import Busy

_LOOK: Final = 0.2


def part(stream: str) -> str:
    """What a stream is called among the parts of a run."""
    return f"the stream «{stream}»"


class Watching(Changing):
    """The part of a run that finds out why a query has died, and what to do about it."""

    _stopping: threading.Event
    _failure: BaseException | None

    def __init__(self, patience: float) -> None:
        self._retries = Retries(patience)
        self._leaps = 0
        self._judging = threading.Lock()
        self._causes: dict[str, BaseException] = {}  # why a stream's last epoch failed: Spark tells only that it did
        self._known: set[str] = set()  # streams whose logs have answered in this run
        self._watcher = threading.Thread(target=self._watch_on, name="penstock-watch", daemon=True)

    @property
    def faults(self) -> dict[str, Fault]:
        """What does not get on at the moment and is tried again, and why."""
        return self._retries.faults

    # time

    def _begin_time(self) -> None:
        """Time in the store does not go back, wherever the clock was set meanwhile."""
        last = self.store.last()
        if last is not None and isinstance(self._clock, Steady):
            self._clock.begin(last.now)

    def _heed_leaps(self) -> None:
        """After a leap of the clock nothing is idle, as after a start."""
        now = self._clock()
        if isinstance(self._clock, Steady) and self._clock.leaps > self._leaps:
            self._leaps = self._clock.leaps
            for tracker in self.engine.trackers.values():
                tracker.resume(now)

    # queries

    def _epoch_failed(self, name: str, error: BaseException) -> None:
        """Spark ends the query now; whether it is started again is decided when it has ended."""
        error = self._behind(error)
        if self._is_retried(name, error):
            self._causes[name] = error
        else:
            self._failure = self._failure or failed(name, error)

    def _is_retried(self, name: str, error: BaseException) -> bool:
        """A log must have answered once: an address that never did may be wrong. And it must be readable again."""
        stream = self.engine.streams.get(name)
        known = name in self._known or isinstance(error, StoreError) or is_disputed(error)
        known = known or (stream is not None and derived(stream) is not None)  # the store answers for its commits
        return passes(error) and known and stream is not None and is_replayable(stream)

    def _judge(self) -> None:
        """Looks for queries that have died, and decides about each once."""
        with self._judging:
            for name, query in list(self._queries.items()):
                if self._failure is not None or self._stopping.is_set() or self._retries.waits(part(name)):
                    continue
                error: BaseException | None = query.exception()
                # One that is restarted or dropped fails in the epoch that it had just begun.
                if error is None or name in self._restarting or self._queries.get(name) is not query:
                    continue
                error = self._behind(self._causes.pop(name, error))
                if not self._is_retried(name, error) or not self._retries.failed(part(name), error):
                    self._failure = self._failure or self._given_up(name, error)

    def _behind(self, error: BaseException) -> BaseException:
        """What is behind an error: a store that was moved away, or taken over, makes many things fail."""
        try:
            self.store.check_place()
            self.store.check_owner()
        except StoreError as found:
            return found
        return error

    def _given_up(self, name: str, error: BaseException) -> BaseException:
        fault = self._retries.faults.get(part(name))
        if fault is None or not passes(error):
            return failed(name, error)
        return RunError(
            f"the stream «{name}» has failed for {self._retries.patience:g} s, {fault.count} times: {essence(error)}",
            detail=str(error)[:2000],
            hint="start the app again when that is over: it goes on where the commits ended",
        )

    def _watch_on(self) -> None:
        while not self._stopping.wait(_LOOK) and self._failure is None:
            try:
                self._judge()
                self._restart_all({name for name, pace in list(self._paces.items()) if pace.wanted is not None})
                for name, query in list(self._queries.items()):
                    if self._retries.is_due(part(name)):
                        self._start_again(name)
                    elif self._is_doubtful(name) and "Waiting" in query.status["message"]:
                        self._gets_on(name)  # it has looked at its log, and there is nothing new
            except BaseException as error:
                if not self._stopping.is_set():
                    self._failure = self._failure or error

    def _forget_stream(self, name: str) -> None:
        super()._forget_stream(name)
        self._retries.forget(part(name))
        self._causes.pop(name, None)
        self._known.discard(name)

    def _is_doubtful(self, name: str) -> bool:
        return name not in self._known or part(name) in self._retries.faults

    def _gets_on(self, name: str) -> None:
        self._known.add(name)
        self._retries.gets_on(part(name))

    def _start_again(self, name: str) -> None:
        """The same query again, from the last commit on."""
        with self._mutex:
            if self._stopping.is_set() or name in self._restarting or name not in self._queries:
                return
            if self._queries[name].isActive:  # whoever needed another plan has started it already
                self._retries.tried(part(name))
                return
            try:
                self.store.check_place()  # Spark would make a new checkpoint where the directory is gone
                mended(name, self._checkpoint(name), self.store)
            except Busy as error:  # a store that cannot be reached yet
                if not self._retries.failed(part(name), error):
                    raise
                return
            self._followers[name].close()
            self._follow(name)
            self._retries.tried(part(name))
