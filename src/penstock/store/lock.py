"""One writer for a store: a lock of the operating system on a file, which the writer touches as a sign of life.

The file holds one line, the writer's process id, so that `kill $(cat .penstock/lock)` means that process and no other.
The lock is free when the process ends, in whatever way. A process that hangs keeps it, and does not touch it: a standby
then puts a lock of its own in its place. The token, which every transaction checks, keeps the two from both writing.
A process that hangs in the middle of a transaction keeps the database locked too: the standby kills it.
"""

from __future__ import annotations

import fcntl
import logging
import os
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from penstock.store.base import StoreError

_log = logging.getLogger("penstock.store")
#: The file of the lock, in the app's directory.
LOCK: Final = "lock"
#: How often, in seconds, a holder gives a sign of life, and a standby looks for one.
_BEAT: Final = 1.0
_LOOK: Final = 0.2


class InUse(StoreError):
    """Another process has the lock. `seen` (inode, time of the last change) changes with each sign of life."""

    seen: tuple[int, int] = (0, 0)
    holder: str = ""


class TakenOver(StoreError):
    """Another process is the writer now."""


@dataclass(frozen=True)
class Standby:
    """How a standby waits: it takes over after that many seconds without a sign of life. `tell` gets messages."""

    takeover_after: float = 10.0
    tell: Callable[[str], object] = _log.warning

    def __post_init__(self) -> None:
        if not self.takeover_after >= 2 * _BEAT:
            raise StoreError(
                f"takeover_after must be at least {2 * _BEAT:g} seconds, and is {self.takeover_after:g}",
                hint=f"a living process gives a sign each {_BEAT:g} s, on a busy machine later: 10 is a good choice",
            )


class FileLock:
    """Held from `take` to `release`, or until the process ends in whatever way, or another one puts its own there."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: int | None = None
        #: The lock that ours was put in the place of: its file, and the id of the process that held it.
        self._replaced: tuple[tuple[int, int], int] | None = None
        self._killed: int | None = None
        self._done = threading.Event()
        self._beating: threading.Thread | None = None

    def take(self) -> None:
        """Takes the lock at once, or says who has it."""
        while self._file is None:
            file = self._open(self.path)
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                status, text = os.fstat(file), os.pread(file, 64, 0)
                os.close(file)
                raise self._in_use(text.decode(errors="replace"), (status.st_ino, status.st_mtime_ns)) from error
            if self._is_there(file):
                self._hold(file)
            else:
                os.close(file)  # another one was put in its place meanwhile

    def wait(self, standby: Standby) -> bool:
        """Takes the lock when it is free, or when its holder hangs; whether that one may still live.

        Only time that this process sees pass counts: neither the clock's jumps nor its own sleep.
        """
        seen, silent, holder, last = (0, 0), 0.0, "", time.monotonic()
        while True:
            try:
                self.take()
                return False
            except InUse as held:
                if held.holder != holder:
                    holder = held.holder
                    standby.tell(
                        f"standby: process {holder} writes to '{self.path.parent}'; waiting until it ends, "
                        f"or is silent for {standby.takeover_after:g} s"
                    )
                now = time.monotonic()
                silent = silent + min(now - last, 2 * _LOOK) if held.seen == seen else 0.0
                seen, last = held.seen, now
            if silent >= standby.takeover_after and self._replace(seen[0], holder):
                standby.tell(f"process {holder} has been silent for {standby.takeover_after:g} s: taking over")
                return True
            time.sleep(_LOOK)

    def release(self) -> None:
        self._done.set()
        if self._beating is not None and self._beating is not threading.current_thread():
            self._beating.join()
        if self._file is not None:
            os.ftruncate(self._file, 0)  # the id may soon be that of another process
            os.close(self._file)
            self._file = None

    def kill_holder(self) -> int | None:
        """Kills the silent process in whose place this one is; its id, or None if it was gone or cannot be found.

        A process is only killed if it still has the file of its lock open: ids are used again.
        """
        if self._replaced is None:
            return None
        (device, inode), holder = self._replaced
        try:
            files = list(Path(f"/proc/{holder}/fd").iterdir())
        except OSError:  # it does not exist, belongs to another user, or the system has no such folder
            return self._killed
        for file in files:
            with suppress(OSError):
                status = file.stat()
                if (status.st_dev, status.st_ino) == (device, inode):
                    os.kill(holder, signal.SIGKILL)
                    self._killed = holder
                    break
        return self._killed

    @property
    def is_lost(self) -> bool:
        """Whether another process has put its lock in the place of ours."""
        return self._file is not None and not self._is_there(self._file, gone=True)

    def _open(self, path: Path) -> int:
        try:
            return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
        except OSError as error:
            raise StoreError(
                f"cannot open the lock '{path}': {error.strerror}",
                hint="give the process write access to the directory, or only read with penstock.store.Reader",
            ) from error

    def _in_use(self, text: str, seen: tuple[int, int]) -> InUse:
        holder = (text.split() or ["unknown"])[0]  # locks of earlier versions have a second line
        who = "this process" if holder == str(os.getpid()) else f"process {holder}"
        error = InUse(
            f"the store in '{self.path.parent}' is in use by {who}",
            hint=f"stop it first (kill {holder}), wait for it with --standby, or only read with penstock.store.Reader",
        )
        error.seen, error.holder = seen, holder
        return error

    def _is_there(self, file: int, gone: bool = False) -> bool:
        """Whether the path names this file; `gone` if it names none."""
        try:
            return os.stat(self.path).st_ino == os.fstat(file).st_ino
        except FileNotFoundError:
            return gone

    def _hold(self, file: int) -> None:
        os.ftruncate(file, 0)
        os.pwrite(file, _line(), 0)
        self._file = file
        self._done = threading.Event()
        self._beating = threading.Thread(
            target=_beat, args=(file, self._done), name="penstock-sign-of-life", daemon=True
        )
        self._beating.start()

    def _replace(self, silent: int, holder: str) -> bool:
        """Puts a lock of our own in the place of the silent one's. Of several standbys one does."""
        above = os.open(self.path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(above, fcntl.LOCK_EX | fcntl.LOCK_NB)
            status = os.stat(self.path)
            if status.st_ino != silent:
                return False
            own = self.path.with_name(f".{self.path.name}.{os.getpid()}")
            own.unlink(missing_ok=True)
            file = self._open(own)
            fcntl.flock(file, fcntl.LOCK_EX)
            os.pwrite(file, _line(), 0)  # before anyone can see it
            os.rename(own, self.path)
            self._hold(file)
            if holder.isdecimal():
                self._replaced = (status.st_dev, silent), int(holder)
            return True
        except (BlockingIOError, FileNotFoundError):
            return False
        finally:
            os.close(above)


def is_held(path: Path, within: float = 10.0) -> bool:
    """Whether a process holds the lock: its id is in the file, and it gave a sign of life in the last seconds."""
    try:
        with path.open("rb") as file:
            return bool(file.read(1)) and time.time() - os.fstat(file.fileno()).st_mtime < within
    except OSError:
        return False


def _line() -> bytes:
    return f"{os.getpid()}\n".encode()


def _beat(file: int, done: threading.Event) -> None:
    while not done.wait(_BEAT):
        with suppress(OSError):
            os.utime(file)
