"""Takes a savepoint, from the app's process or any other: only files are read, nothing waits and nothing stops."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

from penstock.durable import sync
from penstock.history.events.event_history import default_location
from penstock.history.events.pins import pinned
from penstock.history.events.place import Place as LakePlace
from penstock.history.savepoints.checkpoints import Checkpoints, queries
from penstock.history.savepoints.manifest import (
    FOLDER,
    SavedFile,
    Savepoint,
    SavepointError,
    StreamCut,
    ViewCut,
    check_name,
    digest,
    sync_all,
)
from penstock.history.savepoints.segments import link_segments
from penstock.history.savepoints.shelf import clear_leftovers, hidden_name
from penstock.history.savepoints.tables import link_tables
from penstock.store import Reader, StoreError
from penstock.store.checkpoints import FOLDER as CHECKPOINTS
from penstock.store.checkpoints import checkpoints as checkpoints_of
from penstock.store.database import FILE, NOTE
from penstock.store.format import FORMAT
from penstock.store.sqlite.connection import copy_store

_TRIES: Final = 5


def create(directory: Path, name: str, *, to: Path | None = None, app: str | None = None) -> Savepoint:
    """Takes a savepoint of the app in a directory: there under its name, or at a path."""
    check_name(name)
    place = directory / FOLDER / name if to is None else to
    if place.exists():
        raise SavepointError(
            f"there is a savepoint '{name}' already" if to is None else f"'{place}' exists already",
            hint=f"choose another name, or penstock savepoint drop {name}" if to is None else "choose another path",
        )
    if (directory / NOTE).exists():
        raise SavepointError(
            f"the store of '{directory}' is in PostgreSQL, and a savepoint holds one of SQLite only",
            hint="stop the app; back up its schemas (pg_dump) and its directory, which belong together",
        )
    if not (directory / FILE).exists():
        raise StoreError(f"there is no store in '{directory}'", hint="run the app first, or check the path")
    with _hidden(place) as hidden, closing(Reader(directory)) as reader, pinned(reader, f"savepoint {name}"):
        _cut(directory, name, hidden, app).write()
        sync_all(hidden)
        try:
            hidden.rename(place)
        except OSError as error:
            raise SavepointError(f"cannot put the savepoint at '{place}': {error.strerror}") from error
    sync(place.parent)
    return Savepoint.read(place)


@contextmanager
def _hidden(place: Path) -> Iterator[Path]:
    """A directory beside the place, which is gone at the end unless it was moved there."""
    hidden = place.parent / hidden_name(place.name)
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        clear_leftovers(place.parent)
        hidden.mkdir(mode=0o700)
    except FileExistsError:
        raise SavepointError(f"the savepoint '{place.name}' is being taken already", hint="wait for it") from None
    except OSError as error:
        raise SavepointError(
            f"cannot write into '{place.parent}': {error.strerror}", hint="choose another place: --to PATH"
        ) from error
    try:
        yield hidden
    finally:
        shutil.rmtree(hidden, ignore_errors=True)


def _cut(directory: Path, name: str, hidden: Path, app: str | None) -> Savepoint:
    """The store and the checkpoints of one moment, in the hidden directory."""
    for _ in range(_TRIES):
        checkpoints = Checkpoints(_checkpoints_of(directory), hidden / CHECKPOINTS)
        with checkpoints.copying():
            taken_at = time.time_ns() // 1000
            copy_store(directory / FILE, hidden / FILE)
        if queries(checkpoints.source) == checkpoints.queries:
            break
        (hidden / FILE).unlink()  # a stream came, went or was made again
        shutil.rmtree(hidden / CHECKPOINTS, ignore_errors=True)
    else:
        raise SavepointError(
            f"streams are being added and removed in '{directory}': no savepoint could be taken", hint="try again"
        )
    reader = Reader(hidden)
    try:
        _link_history(reader, directory, hidden)
        link_tables(reader, directory, hidden)
        link_segments(reader, directory, hidden)
        return _described(reader, name, taken_at, app, checkpoints.cut(reader.progress))
    finally:
        reader.close()


def _checkpoints_of(directory: Path) -> Path:
    place = checkpoints_of(directory)
    if place.local is None:
        raise SavepointError(
            f"Spark's checkpoints lie at '{place}', and a savepoint holds those of a disk only",
            hint="stop the app, and copy its directory and its checkpoints",
        )
    return place.local


def _link_history(reader: Reader, directory: Path, hidden: Path) -> None:
    """The history's files of this moment, where they lie in the app's directory: they never change, so links will do.

    A history that lies elsewhere stays there, and the store's list refers to it.
    """
    listing = reader.listing()
    if listing.location is None:
        place = LakePlace(str(default_location(directory)))
        for file in listing.files:
            place.link(file.path, default_location(hidden) / file.path)


def _described(reader: Reader, name: str, taken_at: int, app: str | None, streams: dict[str, StreamCut]) -> Savepoint:
    last = reader.last()
    shell = {entry.name for entry in reader.catalog() if entry.kind == "view" and entry.statement is not None}
    rows = reader.query("SELECT name, definition, fingerprint, watermark FROM __views ORDER BY name").rows()
    return Savepoint(
        reader.directory,
        name,
        taken_at,
        app,
        _version(),
        FORMAT,
        0 if last is None else last.number,
        reader.query("SELECT value FROM __meta WHERE name = 'panes'").item(),
        streams,
        {view: ViewCut(definition, print_, mark, view in shell) for view, definition, print_, mark in rows},
        dict(reader.query("SELECT sink, position FROM __sinks").rows()),
        _files(reader),
    )


def _files(reader: Reader) -> dict[str, SavedFile]:
    """All files with their sums; those of the history the store knows."""
    folder = reader.directory
    top = default_location(folder)
    known = {top / file.path: SavedFile(file.bytes, file.checksum) for file in reader.listing().files}
    paths = (Path(above) / name for above, _, names in os.walk(folder) for name in names)
    return {path.relative_to(folder).as_posix(): known.get(path) or digest(path) for path in sorted(paths)}


def _version() -> str:
    try:
        return version("penstock")
    except PackageNotFoundError:
        return "unknown"
