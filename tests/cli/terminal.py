"""A program on a terminal of its own: what it prints is read, keys are sent to it."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path
from types import TracebackType

LONGEST = 120.0
_STYLE = re.compile(rb"\x1b(\[[0-9;?]*[a-zA-Z]|\][^\x07]*\x07|[=>])")


class Terminal:
    """Runs `penstock` with arguments. A program that draws its own line asks where the cursor is: it is told."""

    def __init__(self, *arguments: str, cwd: Path, env: dict[str, str] | None = None) -> None:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 200, 0, 0))
        self.process = subprocess.Popen(
            [sys.executable, "-m", "penstock.cli", *arguments], cwd=cwd, stdin=theirs, stdout=theirs, stderr=theirs,
            start_new_session=True, env={**os.environ, "TERM": "xterm", "XDG_STATE_HOME": str(cwd), **(env or {})},
        )  # fmt: skip
        os.close(theirs)
        self._read = b""

    def send(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def interrupt(self) -> None:
        """Ctrl-C to a program that runs a statement: the terminal is not raw then."""
        os.kill(self.process.pid, signal.SIGINT)

    def expect(self, text: str) -> str:
        """Reads until a text has come; what came up to its end."""
        end = time.monotonic() + LONGEST
        while text not in self.shown:
            assert time.monotonic() < end, f"'{text}' did not come:\n{self.shown}"
            self._more(end - time.monotonic())
        before, _, _ = self.shown.partition(text)
        self._read = self.shown[len(before) + len(text) :].encode()
        return before + text

    @property
    def shown(self) -> str:
        return _STYLE.sub(b"", self._read).decode(errors="replace").replace("\r", "")

    def _more(self, seconds: float) -> None:
        ready, _, _ = select.select([self._ours], [], [], max(0.0, seconds))
        if ready:
            try:
                read = os.read(self._ours, 1 << 16)
            except OSError:  # the other side has ended
                read = b""
            assert read, f"it has ended:\n{self.shown}"
            if b"\x1b[6n" in read:
                os.write(self._ours, b"\x1b[1;1R")
            self._read += read

    def __enter__(self) -> Terminal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._ours)
