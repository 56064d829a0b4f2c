"""One writer for a store: a lock of the operating system on a file, held as long as the process lives."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from penstock.store.base import StoreError


class FileLock:
    """Held from `take` to `release`, or until the process ends in whatever way."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: int | None = None

    def take(self) -> None:
        """Takes the lock at once, or says who has it."""
        if self._file is not None:
            return
        try:
            file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise StoreError(
                f"cannot open the lock «{self.path}»: {error.strerror}",
                hint="give the process write access to the directory, or only read with penstock.store.Reader",
            ) from error
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.read(file, 32).decode(errors="replace").strip() or "unknown"
            os.close(file)
            who = "this process" if holder == str(os.getpid()) else f"process {holder}"
            raise StoreError(
                f"the store in «{self.path.parent}» is in use by {who}",
                hint=f"stop it first (kill {holder}), or only read with penstock.store.Reader",
            ) from error
        os.ftruncate(file, 0)
        os.pwrite(file, f"{os.getpid()}\n".encode(), 0)
        self._file = file

    def release(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None
