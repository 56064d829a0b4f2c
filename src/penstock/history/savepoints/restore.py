"""Puts a savepoint into an app's directory: all of it, checked file by file, or nothing."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Collection
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from penstock.durable import sync
from penstock.errors import unknown
from penstock.history.events.event_history import BEFORE
from penstock.history.savepoints.manifest import Savepoint, SavepointError, copy_file
from penstock.history.savepoints.segments import check_segments
from penstock.history.savepoints.tables import TABLES
from penstock.private import protect
from penstock.store import SqliteStore, StoreError
from penstock.store.checkpoints import FOLDER as CHECKPOINTS
from penstock.store.checkpoints import NOTE
from penstock.store.database import FILE
from penstock.store.database import NOTE as STORE_NOTE
from penstock.store.format import FORMAT
from penstock.store.lock import LOCK, FileLock
from penstock.store.segments import FOLDER as SEGMENTS
from penstock.store.signed import Signer

#: What is copied and checked, and what is moved to its place: the second one is there only if a restore was killed.
_COPYING: Final = ".restoring"
PLACING: Final = ".restored"
HISTORY: Final = "history"
_STATE: Final = (FILE, f"{FILE}-wal", f"{FILE}-shm", STORE_NOTE, CHECKPOINTS, HISTORY, BEFORE, TABLES, SEGMENTS, NOTE)


def check_whole(directory: Path) -> None:
    """Refuses a directory into which a savepoint was half restored."""
    if (directory / PLACING).exists():
        raise SavepointError(
            f"a savepoint was being restored into '{directory}', and that was not finished",
            hint=f"restore it again: penstock savepoint restore NAME --force --dir {directory}",
        )


def restore(
    savepoint: Savepoint, directory: Path, *, force: bool = False, drop: Collection[str] = (), trust: bool = False
) -> Path | None:
    """Makes a savepoint the state of a directory in which no app runs, without the state of the views to `drop`.

    With `force` a state that is there is moved aside: into the directory that is returned. With `trust` Python code of
    another app in the savepoint is taken for this app's own.
    """
    for view in drop:
        if view not in savepoint.views:
            raise unknown("view of the savepoint", view, savepoint.views)
    if savepoint.store_format > FORMAT:
        raise SavepointError(
            f"the savepoint '{savepoint.name}' has a store of format {savepoint.store_format}, and this version of "
            f"Penstock knows {FORMAT}",
            hint=f"use the version that wrote it: {savepoint.penstock}",
        )
    lock = _locked(directory)
    try:
        there = [name for name in _STATE if (directory / name).exists()]
        if there and not force:
            raise SavepointError(
                f"'{directory}' holds the state of an app: {', '.join(there)}",
                hint="restore into an empty directory, or pass --force: the old state is moved aside",
            )
        _copy(savepoint, directory / _COPYING)
        _prepare(directory / _COPYING, Signer(directory), savepoint.name, drop, trust)
        return _place(directory, there)
    finally:
        shutil.rmtree(directory / _COPYING, ignore_errors=True)
        lock.release()


def _locked(directory: Path) -> FileLock:
    """No app runs here, nor starts, until the lock is given back."""
    try:
        protect(directory)
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(
            f"cannot make the directory '{directory}': {error.strerror}", hint="choose one that can be written"
        ) from error
    lock = FileLock(directory / LOCK)
    lock.take()
    return lock


def _copy(savepoint: Savepoint, target: Path) -> None:
    """Copies every file, and compares what was read with what was written when the savepoint was taken."""
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    for name, file in savepoint.files.items():
        try:
            copied = copy_file(savepoint.path / name, target / name)
        except FileNotFoundError:
            raise _damaged(savepoint, f"{name} is missing") from None
        if copied != file:
            raise _damaged(savepoint, f"{name} has {copied.size} bytes with the checksum {copied.sha256[:12]}…, "
                                      f"and had {file.size} with {file.sha256[:12]}…")  # fmt: skip


def _damaged(savepoint: Savepoint, detail: str) -> SavepointError:
    return SavepointError(
        f"the savepoint '{savepoint.name}' is damaged", detail=detail, hint="nothing was restored: take another copy"
    )


def _prepare(folder: Path, signer: Signer, name: str, drop: Collection[str], trust: bool) -> None:
    """Makes the copied store this app's own. One of an earlier version is migrated: the savepoint stays as it is."""
    store = SqliteStore(folder, keeps_backup=False)
    store.lock()
    try:
        check_segments(store, folder)
        if store.listing().location is not None:
            # The history lies outside of the app's directory: two apps go on with its files, and each writes its own.
            store.renew_home()
        for view in drop:
            store.drop(view)
        _check_code(store, signer, name, trust)
    finally:
        store.close()
    (folder / "lock").unlink()
    sync(folder / FILE)


def _check_code(store: SqliteStore, signer: Signer, name: str, trust: bool) -> None:
    """Refuses pickled Python that this app has not written, unless it is trusted: then it is this app's own."""
    foreign = store.generations.foreign_code(signer)
    if foreign and not trust:
        raise SavepointError(
            f"the savepoint '{name}' was taken by another app, and holds Python functions or objects",
            detail=", ".join(foreign),
            hint="they can run any code. If you know where the savepoint comes from: --trust",
        )
    if foreign:
        store.generations.trust_code(signer)


def _place(directory: Path, there: list[str]) -> Path | None:
    """Moves the old state away and the new one to its place. From the first move to the last no app starts here."""
    placing = directory / PLACING
    shutil.rmtree(placing, ignore_errors=True)
    os.rename(directory / _COPYING, placing)
    sync(directory)
    aside = _aside(directory, there)
    for name in (CHECKPOINTS, HISTORY, BEFORE, TABLES, SEGMENTS, FILE):
        if (placing / name).exists():
            os.rename(placing / name, directory / name)
    sync(directory)
    placing.rmdir()
    sync(directory)
    return aside


def _aside(directory: Path, there: list[str]) -> Path | None:
    if not there:
        return None
    now = datetime.fromtimestamp(time.time(), UTC)
    aside = directory / f"replaced-{now:%Y%m%dT%H%M%S.%fZ}"
    aside.mkdir()
    for name in there:
        os.rename(directory / name, aside / name)
    return aside
