"""What the parts of a run share: its clock, its end, its first failure, and the signal that something was committed."""

from __future__ import annotations

import threading
from collections.abc import Callable

from penstock.model.time import Instant
from penstock.runtime.phases import Phases as Phases
from penstock.runtime.queries.clock import Steady
from penstock.runtime.queries.retry import Fault as Fault
from penstock.runtime.queries.retry import Retries as Retries
from penstock.store import Reader


class Lifecycle:
    """From the start of a run to its end."""

    def __init__(self, clock: Callable[[], Instant] | None, retries: Retries, phases: Phases | None = None) -> None:
        self.clock, self.retries, self.phases = clock or Steady(), retries, phases or Phases()
        self.stopping, self.committed = threading.Event(), threading.Event()
        self._failure: BaseException | None = None
        self._on_commit: list[Callable[[], None]] = []

    def on_commit(self, call: Callable[[], None]) -> None:
        """After each commit this is called, besides setting `committed`."""
        self._on_commit.append(call)

    def begin(self, store: Reader) -> None:
        """Time does not go back behind any commit of the store, wherever the clock was set meanwhile."""
        newest = store.query("SELECT max(now) FROM __commits").item()
        if newest is not None and isinstance(self.clock, Steady):
            self.clock.begin(newest)

    @property
    def failure(self) -> BaseException | None:
        """Why the run has ended by itself, if it has: the first error counts."""
        return self._failure

    @property
    def is_over(self) -> bool:
        """Whether the run stops or has failed."""
        return self.stopping.is_set() or self._failure is not None

    def fail(self, error: BaseException) -> None:
        """The run cannot go on."""
        self._failure = self._failure or error

    def tell_committed(self) -> None:
        """Wakes those who wait for a commit: in this run, and the queries that read its commits."""
        self.committed.set()
        self.phases.committed()
        for call in self._on_commit:
            call()

    @property
    def leaps(self) -> int:
        """How often the clock has leapt ahead."""
        return self.clock.leaps if isinstance(self.clock, Steady) else 0
