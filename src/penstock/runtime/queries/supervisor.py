"""Watches the queries of a run: one that failed with a transient fault is started again, any other ends the run."""

from __future__ import annotations

import threading

from penstock.runtime.derived.base import derived
from penstock.runtime.errors import RunError, essence, failed
from penstock.runtime.groups import Groups
from penstock.runtime.queries.checkpoints import is_replayable
from penstock.runtime.queries.lifecycle import Lifecycle
from penstock.runtime.queries.queries import Queries
from penstock.runtime.queries.retry import is_disputed, passes
from penstock.runtime.queries.stream_query import StreamQuery
from penstock.runtime.spark.internals import is_waiting
from penstock.store import SqlStore, StoreError
from penstock.store.connection import Busy


class QuerySupervisor:
    """Checks the queries periodically, until the run is over."""

    def __init__(
        self, queries: Queries, groups: Groups, store: SqlStore, lifecycle: Lifecycle, every: float = 0.2
    ) -> None:
        self._queries, self._groups, self._store, self._lifecycle = queries, groups, store, lifecycle
        self._every = every
        self._judging = threading.Lock()
        self._starting: dict[str, threading.Thread] = {}
        self._thread = threading.Thread(target=self._watch, name="penstock-watch", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def join(self) -> None:
        """Waits until no query is started again any more. The run is stopping."""
        for thread in (self._thread, *self._starting.values()):
            if thread.is_alive() and threading.current_thread() is not thread:
                thread.join()

    def _watch(self) -> None:
        while not self._lifecycle.stopping.wait(self._every) and self._lifecycle.failure is None:
            try:
                self.look()
            except BaseException as error:
                self._fail(error)

    def look(self) -> None:
        """Judges queries that have failed, and starts those again that are due."""
        self.judge()
        retries = self._lifecycle.retries
        for query in self._queries:
            if retries.is_due(query.part):
                self._begin(query)
            elif not query.has_answered or query.part in retries.faults:
                self._look_for_answer(query)

    def _look_for_answer(self, query: StreamQuery) -> None:
        """A query that has checked its source, and found nothing new, works too."""
        if query.query is not None and is_waiting(query.query):
            query.has_answered = True
            self._lifecycle.retries.succeeded(query.part)

    def judge(self) -> None:
        """Looks for queries that have failed, and decides about each once."""
        with self._judging:
            for query in self._queries:
                if self._lifecycle.is_over or self._lifecycle.retries.waits(query.part) or query.query is None:
                    continue
                running = query.query
                error: BaseException | None = running.exception()
                # One that is restarted or dropped fails in the epoch that it had just begun.
                if error is None or query.is_held or query.query is not running or query.name not in self._queries:
                    continue
                cause, query.cause = query.cause, None
                error = self._behind(cause or error)
                if not self._is_retried(query, error) or not self._lifecycle.retries.failed(query.part, error):
                    self._lifecycle.fail(self._given_up(query, error))

    def _is_retried(self, query: StreamQuery, error: BaseException) -> bool:
        """A source must have answered once: an address that never did may be wrong. And it must be readable again."""
        stream = self._groups.of(query.name).engine.registry.streams[query.name]
        is_known = query.has_answered or isinstance(error, StoreError) or is_disputed(error)
        is_known = is_known or derived(stream) is not None  # the store answers for its commits
        return passes(error) and is_known and is_replayable(stream)

    def _behind(self, error: BaseException) -> BaseException:
        """What is behind an error: a store that was moved away, or taken over, makes many things fail."""
        try:
            self._store.check_place()
            self._store.check_owner()
        except StoreError as cause:
            return cause
        return error

    def _given_up(self, query: StreamQuery, error: BaseException) -> BaseException:
        fault = self._lifecycle.retries.faults.get(query.part)
        if fault is None or not passes(error):
            return failed(query.name, error)
        seconds = self._lifecycle.retries.patience
        return RunError(
            f"the stream '{query.name}' has failed for {seconds:g} s, {fault.count} times: {essence(error)}",
            detail=str(error)[:2000],
            hint="start the app again when that is over: it goes on where the commits ended",
        )

    # start again

    def _begin(self, query: StreamQuery) -> None:
        """Starts a query again, in a thread of its own: it may have to wait for its turn, and others need not."""
        thread = self._starting.get(query.name)
        if thread is None or not thread.is_alive():
            name = f"penstock-start-{query.name}"
            thread = threading.Thread(target=self._try, args=(query,), name=name, daemon=True)
            self._starting[query.name] = thread
            thread.start()

    def _try(self, query: StreamQuery) -> None:
        try:
            self._resume(query)
        except BaseException as error:
            self._fail(error)

    def _resume(self, query: StreamQuery) -> None:
        retries = self._lifecycle.retries
        try:
            if not self._lifecycle.stopping.is_set():
                self._queries.resume(query)
            retries.tried(query.part)
        except Busy as error:  # a store that cannot be reached yet
            if not retries.failed(query.part, error):
                raise

    def _fail(self, error: BaseException) -> None:
        if not self._lifecycle.stopping.is_set():
            self._lifecycle.fail(error)
