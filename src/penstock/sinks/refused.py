"""Panes that a receiver has rejected are set aside: a file of JSON lines for each sink, with reasons."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from penstock.durable import flush
from penstock.sinks.base import SinkError, Target
from penstock.sinks.files import plain
from penstock.sinks.rows import Row

_SUFFIX: Final = ".refused.jsonl"


class RefusedPanes:
    """The file of one sink. `count` is how many panes are in it; one that is refused again is not added again."""

    def __init__(self, directory: str, target: Target) -> None:
        self._path = Path(directory) / f"{quote(target.sink, safe='')}{_SUFFIX}"
        self._view = target.view
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._path.touch()
        except OSError as error:
            raise SinkError(
                f"cannot use the directory '{directory}': {error.strerror}", hint="choose one that can be written"
            ) from error
        self._known = {_name(line) for line in _lines(self._path)}

    @property
    def count(self) -> int:
        return len(self._known)

    def add(self, row: Row, status: int, reason: str) -> None:
        """Adds a pane; when this returns, it is durable."""
        at = plain(datetime.now(UTC))
        line = {"at": at, "status": status, "reason": reason, "view": self._view, "row": plain(row)}
        if _name(line) in self._known:
            return
        with self._path.open("ab+") as file:
            _end_line(file)
            file.write(json.dumps(line, ensure_ascii=False, allow_nan=False).encode() + b"\n")
            flush(file)
        self._known.add(_name(line))


def read_refused(directory: str | Path) -> Iterator[Row]:
    """The panes that sinks have set aside in a directory: `sink`, `at`, `status`, `reason`, `view` and the `row`."""
    for path in sorted(Path(directory).glob(f"*{_SUFFIX}")):
        for line in _lines(path):
            yield {"sink": path.name.removesuffix(_SUFFIX), **line}


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    """The whole lines; a last one that was cut by a crash is not a line."""
    for text in path.read_bytes().split(b"\n"):
        try:
            yield json.loads(text)
        except ValueError:
            continue


def _end_line(file: Any) -> None:
    """Ends a line that was cut by a crash, so that the next one stands for itself."""
    if file.tell():
        file.seek(-1, os.SEEK_END)
        if file.read(1) != b"\n":
            file.write(b"\n")


def _name(line: dict[str, Any]) -> str:
    return json.dumps(line["row"], sort_keys=True)
