"""What a savepoint says of itself: the file `manifest.json` beside the store and the checkpoints that it holds."""

from __future__ import annotations

import hashlib
import json
import os
import re
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, Final

from penstock.durable import flush, sync
from penstock.errors import PenstockError
from penstock.model.time import Instant

#: Where the savepoints of an app lie, in its directory.
FOLDER: Final = "savepoints"
MANIFEST: Final = "manifest.json"
#: The form of the manifest.
FORM: Final = 1
_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
_CHUNK: Final = 1 << 20


class SavepointError(PenstockError):
    """A savepoint that cannot be taken, is damaged, or does not fit where it should go."""


@dataclass(frozen=True)
class StreamCut:
    """How far a stream was: the query that read it, the last epoch (-1: none yet), and the offsets at its end."""

    query: str
    epoch: int
    offsets: str


@dataclass(frozen=True)
class ViewCut:
    """A view as it was: its definition, and up to where it was complete. Was it created in a shell?"""

    definition: str
    fingerprint: str
    watermark: Instant | None
    shell: bool


@dataclass(frozen=True)
class SavedFile:
    """A file of a savepoint."""

    size: int
    sha256: str


@dataclass(frozen=True)
class Savepoint:
    """A savepoint at a path. `made` is when its store was copied, `panes` the newest pane that had been fired."""

    path: Path
    name: str
    made: Instant
    app: str | None
    penstock: str
    store_format: int
    commit: int
    panes: int
    streams: dict[str, StreamCut]
    views: dict[str, ViewCut]
    sinks: dict[str, int]
    files: dict[str, SavedFile]

    @property
    def size(self) -> int:
        """How many bytes it takes."""
        return sum(file.size for file in self.files.values())

    def write(self) -> None:
        """Writes the manifest into the savepoint."""
        text = json.dumps({"form": FORM, **asdict(self), "path": None}, indent=2, ensure_ascii=False)
        (self.path / MANIFEST).write_text(text + "\n", encoding="utf-8")

    @staticmethod
    def read(path: Path) -> Savepoint:
        """The savepoint at a path; refuses what is none, or one that this version does not know."""
        try:
            content = json.loads((path / MANIFEST).read_text(encoding="utf-8"))
            form = content.pop("form")
            if form == FORM:
                return _made(path, content)
        except FileNotFoundError:
            raise SavepointError(f"there is no savepoint at '{path}'", hint="penstock savepoint list") from None
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            raise SavepointError(
                f"the savepoint '{path}' is damaged: its {MANIFEST} cannot be read",
                detail=f"{type(error).__name__}: {error}",
                hint="take another copy of it, or another savepoint",
            ) from error
        raise SavepointError(
            f"the savepoint '{path}' has the format {form}, and this version of Penstock reads {FORM}",
            hint="use the version that wrote it",
        )


def _made(path: Path, content: dict[str, Any]) -> Savepoint:
    files = {name: SavedFile(**file) for name, file in content["files"].items()}
    for name in files:
        if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
            raise ValueError(f"a file outside of the savepoint: {name}")
    streams = {name: StreamCut(**cut) for name, cut in content["streams"].items()}
    views = {name: ViewCut(**cut) for name, cut in content["views"].items()}
    return Savepoint(**{**content, "path": path, "files": files, "streams": streams, "views": views})


def check_name(name: str) -> None:
    """Refuses what cannot be a savepoint's name, which is that of a folder."""
    if not _NAME.fullmatch(name):
        raise SavepointError(
            f"'{name}' cannot be a savepoint's name", hint="use letters, digits, '_', '-' and '.', and no dot in front"
        )


def copy_file(source: Path, target: Path) -> SavedFile:
    """Copies a file, makes the copy durable, and tells what was read."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with source.open("rb") as file, target.open("wb") as copy:
        copied = _digest(file, copy)
        flush(copy)
    return copied


def digest(path: Path) -> SavedFile:
    """The size and the sum of a file."""
    with path.open("rb") as file:
        return _digest(file, None)


def _digest(file: BinaryIO, copy: BinaryIO | None) -> SavedFile:
    summed, size = hashlib.sha256(), 0
    while part := file.read(_CHUNK):
        summed.update(part)
        size += len(part)
        if copy is not None:
            copy.write(part)
    return SavedFile(size, summed.hexdigest())


def sync_all(folder: Path) -> None:
    """Makes a directory durable, with all that it holds."""
    for above, _, files in os.walk(folder):
        for name in files:
            sync(Path(above) / name)
        sync(Path(above))
