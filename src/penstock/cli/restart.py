"""Keeps a command running: it is started again when it is killed, or when it fails after it has run for a while.

A command that fails at its first start has a wrong argument or definition, and its error stands. Once it has run, it is
started again whatever ends it. One that ends soon after each start is given up after a few attempts.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Final, NoReturn

#: Exit codes of a command that has stopped as it was asked to, or that was not understood.
_ENDED: Final = (0, 2, 130)
#: What asks a process to stop. The command is in a session of its own, and gets none of these from a terminal.
_STOPS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
#: Linux: the signal that a process gets when its parent has ended.
_SET_PARENT_DEATH_SIGNAL: Final = 1


@dataclass(frozen=True)
class Rules:
    """When a command is started again.

    `steady`: the seconds after which it counts as running. `attempts`: how often in a row it may end sooner. The first
    restart comes at once, the second after `pause` seconds, and each further one after twice as long, up to `longest`.

    >>> [Rules().delay(crash) for crash in (1, 2, 3, 9)]
    [0.0, 1.0, 2.0, 30.0]
    """

    steady: float = 60.0
    attempts: int = 5
    pause: float = 1.0
    longest: float = 30.0

    def delay(self, crashes: int) -> float:
        """The seconds to wait after this number of crashes in a row."""
        return 0.0 if crashes < 2 else min(self.longest, self.pause * 2.0 ** (crashes - 2))


def keep_running(command: Sequence[str], tell: Callable[[str], object], rules: Rules = Rules()) -> int:  # noqa: B008
    """Runs a command until it ends for good. Its exit code; below zero, the signal that has ended it.

    SIGINT, SIGTERM and SIGHUP are passed on to the command, at any time; after that it is not started again.
    """
    crashes, has_been_steady = 0, False
    with _Signals() as signals:
        while True:
            begun = time.monotonic()
            code = signals.run(command)
            is_steady = time.monotonic() - begun >= rules.steady
            has_been_steady = has_been_steady or is_steady
            if signals.stop is not None or code in _ENDED or (code > 0 and not has_been_steady):
                return code
            crashes = 1 if is_steady else crashes + 1
            cause = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
            if crashes > rules.attempts:
                tell(
                    f"the app {cause}. It has ended {crashes} times in a row within {rules.steady:g} s of its start,"
                    " and is not started again"
                )
                return code
            delay = rules.delay(crashes)
            tell(f"the app {cause}, and is started again{f' in {delay:g} s' if delay else ''}")
            if signals.wait(delay):
                return 0


def end_like(code: int) -> NoReturn:
    """Ends this process as a command has ended: with its exit code, or by the signal that has stopped it."""
    if -code in _STOPS:  # a service manager takes this for a stop that it has asked for, and 143 for a failure
        sys.stdout.flush()
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    sys.exit(code if code >= 0 else 128 - code)


class _Signals:
    """Passes signals on to the command that runs, and remembers the last one."""

    def __init__(self) -> None:
        self.stop: int | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._stopped = threading.Event()

    def __enter__(self) -> _Signals:
        self._before = {number: signal.signal(number, self._handle) for number in _STOPS}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def run(self, command: Sequence[str]) -> int:
        """Runs the command once; its exit code."""
        # It has a session of its own: a terminal's Ctrl-C would else reach it twice.
        self._process = subprocess.Popen(command, start_new_session=True, preexec_fn=_ends_with(os.getpid()))
        if self.stop is not None:  # it came while the process was started
            self._process.send_signal(self.stop)
        return self._process.wait()

    def wait(self, seconds: float) -> bool:
        """Waits for `seconds`, or until a signal comes; whether one has come."""
        self._process = None
        return self._stopped.wait(seconds)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        process, self.stop = self._process, number
        self._stopped.set()
        if process is not None:
            process.send_signal(number)


def _ends_with(parent: int) -> Callable[[], None] | None:
    """Runs in the new process: it is asked to stop when its parent is killed. Nobody would start it again any more."""
    if sys.platform != "linux":
        return None
    library = ctypes.CDLL(None)  # loaded before the fork

    def ask() -> None:
        library.prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGTERM)
        if os.getppid() != parent:
            os._exit(128 + signal.SIGTERM)

    return ask
