"""Spark's list of the files that a query has read: `sources/0` of its checkpoint, an entry for each batch of files.

An entry is a file of JSON lines. Each tenth entry is compacted: it repeats all entries before it.

>>> listed('v1\\n{"path":"file:///in/a%20b.json","timestamp":1000,"batchId":3}')
[ListedFile(entry=3, time=1000, path='/in/a b.json')]
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlparse

from penstock.errors import PenstockError
from penstock.sources.base import Folder


@dataclass(frozen=True, order=True)
class ListedFile:
    """A file with its modification time in milliseconds, and the entry that lists it."""

    entry: int
    time: int
    path: str


def listed(text: str, entry: int | None = None) -> list[ListedFile]:
    """The files of an entry's text. Of a compacted one, those of one entry or of all."""
    version, *lines = text.rstrip("\n").split("\n")
    if version != "v1":
        raise PenstockError(f"the list of files has the version {version[:20]!r}", hint="Penstock reads 'v1'")
    if entry is not None:  # a compacted entry may have a million lines, and few are parsed
        of_entry = re.compile(rf'"batchId"\s*:\s*{entry}\b')
        lines = [line for line in lines if of_entry.search(line)]
    files = [_file(json.loads(line)) for line in lines]
    return [file for file in files if entry in (None, file.entry)]


def listed_between(entries: Folder, after: int, through: int) -> list[str]:
    """The paths in the entries after one, up to another, by modification time and then by path.

    An epoch reads more than one entry if the run before ended after it had listed files and before it began the epoch.
    """
    files = [file for entry in range(after + 1, through + 1) for file in _entry(entries, entry, through)]
    return list(dict.fromkeys(file.path for file in sorted(files, key=lambda file: (file.time, file.path))))


def plain_path(path: str) -> str:
    """A path as Spark writes it, as the file system has it; a URL as it is."""
    return unquote(urlparse(path).path) if path.startswith("file:") else path


def _file(line: dict[str, Any]) -> ListedFile:
    return ListedFile(int(line["batchId"]), int(line["timestamp"]), plain_path(line["path"]))


def _entry(entries: Folder, entry: int, through: int) -> list[ListedFile]:
    # Spark deletes an entry once a later one is compacted.
    for name in (str(entry), *(f"{later}.compact" for later in range(entry, through + 1))):
        try:
            text = (entries / name).read_text()
        except FileNotFoundError:
            continue
        if files := listed(text, entry):
            return files
    raise PenstockError(
        f"the checkpoint does not list the files of entry {entry}",
        detail=f"{entries}/{entry}",
        hint="restore a savepoint, or start from the beginning in another directory",
    )
