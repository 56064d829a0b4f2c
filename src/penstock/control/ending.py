"""When a running app is to stop: a time is over, its sources are read, or the process is asked to end."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

from penstock.control.live import Live

#: The exit code of a process that a second Ctrl-C ended.
_INTERRUPTED: Final = 130


@contextmanager
def stop_signals(stopping: threading.Event, tell: Callable[[str], object]) -> Iterator[None]:
    """Ctrl-C and SIGTERM ask to stop; a second one ends the process at once. Only the main thread gets signals."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handle(number: int, frame: FrameType | None) -> None:
        if stopping.is_set():
            os._exit(_INTERRUPTED)
        stopping.set()
        tell("stopping at the end of this epoch; Ctrl-C again ends at once")

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def end_check(
    live: Live,
    seconds: float | None,
    *,
    from_first_commit: bool = False,
    until: Callable[[], object] | None = None,
    drain: bool = False,
) -> Callable[[], bool]:
    """A function that says whether it is time to stop.

    It is when `seconds` are over, counted from now or from the first commit. Or when `until`, which is called in a
    thread of its own, has returned and everything that the sources hold then is read; with `drain` the open windows are
    closed too.
    """
    begun = None if from_first_commit else time.monotonic()
    caught_up, failures = threading.Event(), list[Exception]()
    if until is not None:

        def catch_up() -> None:
            until()
            try:
                live.drain() if drain else live.catch_up()
            except Exception as error:
                failures.append(error)
            caught_up.set()

        threading.Thread(target=catch_up, name="penstock-catch-up", daemon=True).start()

    def is_done() -> bool:
        nonlocal begun
        if failures:
            live.wait(0)  # it knows best why it failed
            raise failures[0]
        if begun is None and live.store.last() is not None:
            begun = time.monotonic()
        is_over = seconds is not None and begun is not None and time.monotonic() >= begun + seconds
        return is_over or caught_up.is_set()

    return is_done
