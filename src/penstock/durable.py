"""Files and directories that survive a power cut: their content and their names are forced to disk."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import IO


def flush(file: IO[bytes]) -> None:
    """Forces what was written to an open file to disk."""
    file.flush()
    os.fsync(file.fileno())


def sync(path: Path) -> None:
    """Forces a file, or the entries of a directory, to disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_directory(path: Path, prepare: Callable[[Path], object] | None = None) -> None:
    """Makes a directory and those above it, with durable entries. `prepare` is called with each new one."""
    if path.is_dir():
        return
    above = path.absolute().parent
    make_directory(above, prepare)
    path.mkdir(exist_ok=True)
    if prepare is not None:
        prepare(path)
    sync(above)
