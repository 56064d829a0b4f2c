"""Records the phases from the start of a process to its first commit, and how long each takes.

>>> phases = Phases(lambda: 0.0)
>>> with phases.span("starting Spark"):
...     phases.current
'starting Spark'
>>> phases.current is None, phases.spans
(True, [Span(name='starting Spark', began=0.0, ended=0.0)])
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

#: In the app's directory: the parts of its last start.
FILE: Final = "start.json"
#: From the start of the process until the app is defined.
LOADING: Final = "loading the app"
PLANNING: Final = "planning the first epoch"
COMPUTING: Final = "computing the first epoch"


@dataclass(frozen=True)
class Span:
    """A part of a start, in seconds since the process began. It has no end while it lasts. Some run side by side."""

    name: str
    began: float
    ended: float | None = None

    def text(self) -> str:
        """
        >>> Span("starting Spark", 0.5, 2.0).text()
        'starting Spark 1.5 s (0.5 to 2.0)'
        """
        if self.ended is None:
            return f"{self.name} since {self.began:.1f} s"
        return f"{self.name} {self.ended - self.began:.1f} s ({self.began:.1f} to {self.ended:.1f})"


class Phases:
    """The parts of a start, as they come. Any thread may add one. `clock` gives the seconds since the process began."""

    def __init__(self, clock: Callable[[], float] | None = None) -> None:
        self._clock = clock or _since_process_began()
        self._spans: list[Span] = []
        self._lock = threading.Lock()
        self._directory: Path | None = None
        self._is_over = False

    @contextmanager
    def span(self, name: str) -> Iterator[None]:
        """Records the block as a part of the start."""
        self.begin(name)
        try:
            yield
        finally:
            self.end(name)

    def begin(self, name: str, began: float | None = None) -> None:
        """Begins a part. A part that has begun already goes on."""
        with self._lock:
            if not self._is_over and not any(span.name == name for span in self._spans):
                self._spans.append(Span(name, self._clock() if began is None else began))

    def end(self, name: str) -> None:
        """Ends a part."""
        with self._lock:
            self._spans = [
                Span(name, span.began, self._clock()) if span.name == name and span.ended is None else span
                for span in self._spans
            ]

    def end_all(self) -> None:
        """Ends all parts."""
        for span in self.spans:
            self.end(span.name)

    # the first epoch

    def queries_started(self, directory: Path) -> None:
        """The queries run: Spark plans the first epoch. The parts are kept in this directory once it is committed."""
        self._directory = directory
        self.begin(PLANNING)

    def epoch_began(self) -> None:
        """Spark has cut an epoch."""
        if not self._is_over:
            self.end(PLANNING)
            self.begin(COMPUTING)

    def committed(self) -> None:
        """The app has committed something: the start is over."""
        if self._is_over:
            return
        self.end_all()
        self._is_over = True
        if self._directory is not None:
            with suppress(OSError):  # the run has worse to report, if the disk is full
                (self._directory / FILE).write_text(json.dumps([asdict(span) for span in self.spans]))

    @property
    def spans(self) -> list[Span]:
        """The parts so far, in the order in which they began."""
        with self._lock:
            return list(self._spans)

    @property
    def current(self) -> str | None:
        """What was begun last and lasts; None once the start is over."""
        lasting = [span.name for span in self.spans if span.ended is None]
        return lasting[-1] if lasting else None

    @property
    def has_queries(self) -> bool:
        """Whether the queries run."""
        return self._directory is not None

    @property
    def is_over(self) -> bool:
        """Whether there was a commit."""
        return self._is_over


def last_start(directory: Path) -> list[Span]:
    """The parts of the last start of an app that has committed something; none if it did not."""
    try:
        return [Span(**span) for span in json.loads((directory / FILE).read_text())]
    except (OSError, ValueError, TypeError):
        return []


def _since_process_began() -> Callable[[], float]:
    """Counts from where the operating system started this process; elsewhere than on Linux, from now."""
    before = 0.0
    with suppress(OSError, ValueError, IndexError, AttributeError):
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        started = int(fields[19]) / os.sysconf("SC_CLK_TCK")
        before = time.clock_gettime(time.CLOCK_BOOTTIME) - started
    now = time.monotonic()
    return lambda: time.monotonic() - now + before
