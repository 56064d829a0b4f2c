"""Lets time pass where no events come: a periodic tick of each group."""

from __future__ import annotations

import threading

from penstock.runtime.groups import Group, Groups
from penstock.runtime.queries.lifecycle import Lifecycle
from penstock.store import SqlStore


class Ticker:
    """Ticks each group periodically, in a thread of its own: a busy group delays no other."""

    def __init__(self, groups: Groups, store: SqlStore, lifecycle: Lifecycle, every: float) -> None:
        self._groups, self._store, self._lifecycle, self._every = groups, store, lifecycle, every
        self._threads: dict[Group, threading.Thread] = {}
        self._main = threading.Thread(target=self._look, name="penstock-ticks", daemon=True)

    def start(self) -> None:
        self._main.start()

    def join(self) -> None:
        """Waits until the ticks under way are over. The run is stopping."""
        if self._main.is_alive():
            self._main.join()  # from here on it starts no more threads
        for thread in self._threads.values():
            thread.join()

    def _look(self) -> None:
        """Gives each group that has come a thread, and forgets those that are gone."""
        while True:
            self._threads = {group: thread for group, thread in self._threads.items() if thread.is_alive()}
            for group in self._groups.all:
                if group not in self._threads:
                    thread = threading.Thread(
                        target=self._tick_on, args=(group,), name=f"penstock-ticks-{group.number}", daemon=True
                    )
                    self._threads[group] = thread
                    thread.start()
            if self._lifecycle.stopping.wait(self._every) or self._lifecycle.is_over:
                return

    def _tick_on(self, group: Group) -> None:
        while not self._lifecycle.stopping.wait(self._every) and group.is_live and not self._lifecycle.is_over:
            part, retries = f"time in the group of {group.name}", self._lifecycle.retries
            if retries.waits(part) and not retries.is_due(part):
                continue
            try:
                self.tick(group)
                retries.succeeded(part)
            except BaseException as error:
                if not retries.failed(part, error):
                    self._lifecycle.fail(error)

    def tick(self, group: Group) -> None:
        """One tick of a group, in its turn."""
        with group.lock:
            if not group.is_live or self._lifecycle.stopping.is_set():
                return
            self._store.check_owner()  # one that has nothing to commit would never find out
            now = self._lifecycle.clock()
            group.engine.follow_clock(self._lifecycle.leaps, now)
            if group.engine.tick(now) is not None:
                self._lifecycle.tell_committed()
