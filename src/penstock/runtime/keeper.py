"""Looks after the history while an app runs: removes what failed attempts left, and compacts in the background."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from penstock.history.events.compact import Compaction, CompactionResult, Rules
from penstock.history.events.event_history import EventHistory
from penstock.model.time import Instant

_LOG = logging.getLogger("penstock.history")
#: Seconds between two checks of the history.
EVERY = 60.0


class Keeper:
    """One for a run. The store must be this process's to write."""

    def __init__(self, history: EventHistory, clock: Callable[[], Instant], rules: Rules = Rules()) -> None:  # noqa: B008
        self.history, self._clock = history, clock
        self._compaction = Compaction(history, rules)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._look, name="penstock-history", daemon=True)

    def start(self) -> None:
        """Removes files that no commit lists, before the first epoch. Then compacts the history periodically."""
        self._compaction.sweep_orphans(self._clock())
        self._thread.start()

    def stop(self) -> None:
        """Waits for the current compaction."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    def compact(self, *, everything: bool = True) -> CompactionResult:
        """Compacts at once."""
        return self._compaction.run(self._clock(), everything=everything)

    def _look(self) -> None:
        while not self._stopping.wait(EVERY):
            try:
                self._compaction.run(self._clock())
            except Exception as error:  # the app does without; it is tried again
                _LOG.warning("the history could not be compacted: %s", error)
