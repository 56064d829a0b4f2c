"""What an epoch or a tick moves in memory before it is committed, moved back if it fails.

The store then has nothing of it. If time had moved all the same, the next tick would commit that, and the epoch, read
again, would find its own events late.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from penstock.runtime.commit.registry import Registry


@contextmanager
def undone_on_failure(registry: Registry) -> Iterator[None]:
    """If this block fails, streams and views have the time that they had before."""
    trackers = [(tracker, tracker.moment()) for tracker in registry.trackers.values()]
    times = [(time, time.moment()) for time in registry.times]
    try:
        yield
    except BaseException:
        for tracker, before in trackers:
            tracker.go_back(before)
        for time, earlier in times:
            time.go_back(earlier)
        raise
