"""A file that is forced to disk before anything lists it."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

from penstock.durable import flush, sync


class DurableFile:
    """Opened by the first write. Used with `with`, it leaves nothing behind unless it was closed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._out: BinaryIO | None = None

    def write(self, data: bytes | memoryview) -> int:
        """Appends bytes; where they begin."""
        if self._out is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._out = open(self._path, "xb")  # noqa: SIM115
        begin = self._out.tell()
        self._out.write(data)
        return begin

    def close(self) -> None:
        """Forces the file and its name to disk. Without a write there is no file."""
        if self._out is not None:
            flush(self._out)
            self._out.close()
            sync(self._path.parent)
            self._out = None

    def __enter__(self) -> DurableFile:
        return self

    def __exit__(self, *_: object) -> None:
        # If this fails too, nobody lists what is left.
        if self._out is not None:
            self._out.close()
            self._path.unlink(missing_ok=True)
            self._out = None
