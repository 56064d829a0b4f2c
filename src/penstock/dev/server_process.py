"""A server on this machine, in a process of its own that writes what it says into a file."""

from __future__ import annotations

import atexit
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path


class ServerProcess:
    """Runs a command; a server that still runs when Python ends is killed."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None

    def run(self, command: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        """Starts the command."""
        self._log.parent.mkdir(parents=True, exist_ok=True)
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment,
                start_new_session=True,  # an interrupt at the terminal is for us, and we stop it
            )  # fmt: skip
        atexit.register(self.kill)

    @property
    def pid(self) -> int:
        assert self._process is not None, "start it first"
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def output(self) -> str:
        """What it has written since it was started."""
        return self._log.read_text(errors="replace")

    def stop(self, seconds: float = 30.0) -> None:
        """Ends it in order; after `seconds`, by force."""
        if self._process is not None and self.is_alive:
            self._process.send_signal(signal.SIGCONT)
            self._process.terminate()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(seconds)
        self.kill()

    def kill(self) -> None:
        """Ends it at once, as a crash would."""
        atexit.unregister(self.kill)
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def pause(self) -> None:
        """Suspends it: connections stay open, and nothing answers."""
        self._send(signal.SIGSTOP)

    def resume(self) -> None:
        self._send(signal.SIGCONT)

    def _send(self, number: int) -> None:
        assert self._process is not None, "start it first"
        self._process.send_signal(number)
