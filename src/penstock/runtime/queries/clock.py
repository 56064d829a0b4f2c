"""The clock of a run: the wall clock, made steady where that jumps.

Time in a run never goes back: where the clock was set back, it goes on at half its pace until the clock has caught up.
Where the clock jumps ahead, as after a sleep of the machine, time jumps too, and nothing is idle because of it: silence
during the sleep does not count.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Final

from penstock.model.time import SECOND, Instant

_log = logging.getLogger("penstock.runtime")
#: By how much the clock must run ahead of the monotonic clock to count as a leap.
_LEAP: Final = 10 * SECOND


def wall_clock() -> Instant:
    return time.time_ns() // 1000


def _pace() -> Instant:
    return time.monotonic_ns() // 1000


class Steady:
    """Instants that never go back. `leaps` counts how often time has leapt ahead.

    >>> wall, pace = iter([100, 40, 60, 110]), iter([0, 10, 30, 80])
    >>> clock = Steady(lambda: next(wall), lambda: next(pace))
    >>> clock(), clock(), clock(), clock()
    (100, 105, 115, 140)
    """

    def __init__(self, wall: Callable[[], Instant] = wall_clock, pace: Callable[[], Instant] = _pace) -> None:
        self._wall, self._pace = wall, pace
        self._now: Instant | None = None
        self._last: Instant = 0
        self._is_ahead = False
        self._lock = threading.Lock()
        self.leaps = 0

    def begin(self, last: Instant) -> None:
        """Time goes on from here, if it has been as late as this already in an earlier run."""
        self._now, self._last = max(last, self._wall()), self._pace()

    def __call__(self) -> Instant:
        with self._lock:
            wall, pace = self._wall(), self._pace()
            if self._now is None:
                self._now, self._last = wall, pace
            passed, self._last = pace - self._last, pace
            if wall - self._now - passed > _LEAP:
                self.leaps += 1
                _log.warning("the clock has jumped ahead by %.0f s", (wall - self._now - passed) / SECOND)
            self._tell(wall)
            self._now = max(wall, self._now + passed // 2)
            return self._now

    def _tell(self, wall: Instant) -> None:
        assert self._now is not None
        is_ahead = self._now - wall > _LEAP
        if is_ahead and not self._is_ahead:
            _log.warning("the clock was set back by %.0f s: time passes at half its pace", (self._now - wall) / SECOND)
        self._is_ahead = is_ahead
