"""Keeps an app running and shows how far it is, until it is to stop.

On a terminal the picture is redrawn; elsewhere a line is printed periodically.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Final, Protocol

from rich.console import Console, RenderableType
from rich.live import Live as Picturing

from penstock.cli.apart import apart
from penstock.cli.figures import Figures, Meter, read
from penstock.control import Live
from penstock.control.ending import end_check, stop_signals
from penstock.store import Reader

_LOOK: Final = 0.5


class Picture(Protocol):
    """What is shown of a running app."""

    def live(self, figures: Figures) -> RenderableType:
        """For a terminal, drawn over the one before."""

    def line(self, figures: Figures) -> RenderableType:
        """For everything else, printed below the one before."""


def watch(
    run: Live,
    picture: Picture,
    console: Console,
    *,
    each: float,
    seconds: float | None = None,
    from_first_commit: bool = False,
    until_caught_up: bool = False,
    drain: bool = False,
    until: Callable[[], object] | None = None,
) -> Figures:
    """Reads until the time is over, the logs are read, someone asks to stop, or it fails; stops at an epoch boundary.

    The last figures. `each`: seconds between two lines. `seconds` count from the start, or from the first commit. When
    `until` returns, which is called in a thread of its own, what the logs hold then is read to its end; with `drain`
    the open windows are then closed.
    """
    stopping = threading.Event()
    meter = Meter(run.store)
    with stop_signals(stopping, console.print):
        run.start()
        try:
            until = until or ((lambda: None) if until_caught_up else None)
            is_done = end_check(run, seconds, from_first_commit=from_first_commit, until=until, drain=drain)
            if console.is_terminal:
                with Picturing(console=console, auto_refresh=False, transient=True) as live:
                    for figures in _looks(run, meter, stopping, is_done, _LOOK):
                        waits_for = run.run.starting
                        live.update(f"{waits_for} …" if waits_for else picture.live(figures), refresh=True)
            else:
                shown = None
                for figures in _looks(run, meter, stopping, is_done, each):
                    if (waits_for := run.run.starting) is None:
                        console.print(picture.line(figures))
                    elif waits_for != shown:
                        console.print(f"{waits_for} …")
                    shown = waits_for
            run.wait(0)
        finally:
            run.stop()
    return read(Reader(run.directory))


def _looks(
    run: Live, meter: Meter, stopping: threading.Event, is_done: Callable[[], bool], each: float
) -> Iterator[Figures]:
    """The figures, again and again until the end."""
    last = time.monotonic()
    while not stopping.is_set() and not is_done():
        run.wait(0.1)
        if time.monotonic() - last >= each:
            last = time.monotonic()
            yield apart(meter.read)
