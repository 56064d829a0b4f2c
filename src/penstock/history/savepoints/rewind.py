"""Sinks that are ahead of a savepoint: directories of files know how far they are, and can be taken back.

The files are named by the panes that they hold. One with panes after the savepoint is moved away whole: it was written
after the savepoint, when the store did not know of any of its panes as delivered, so what it held from before the
savepoint is still in the outbox and is brought again.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from penstock.durable import sync
from penstock.errors import in_quotes
from penstock.history.savepoints.manifest import Savepoint, SavepointError
from penstock.sinks.directory import files_of
from penstock.sinks.files import Files

Sinks = Mapping[str, tuple[str, Any, Any]]


def ahead(savepoint: Savepoint, sinks: Sinks) -> dict[str, list[Path]]:
    """By sink the files with panes that the savepoint does not know of."""
    files_by_sink = {}
    for name, (_, _, sink) in sinks.items():
        if isinstance(sink, Files) and Path(sink.directory).is_dir():
            files = [path for _, last, path in files_of(sink.directory) if last > savepoint.panes]
            if files:
                files_by_sink[name] = files
    return files_by_sink


def refuse_ahead(savepoint: Savepoint, sinks: Sinks) -> None:
    """Refuses sinks that hold panes from after the savepoint: the same ids will stand for other panes."""
    files_by_sink = ahead(savepoint, sinks)
    if files_by_sink:
        raise SavepointError(
            f"sinks are ahead of the savepoint '{savepoint.name}': {in_quotes(files_by_sink)}",
            detail="\n  ".join(
                f"{name}: {len(files)} files from {files[0]} on" for name, files in files_by_sink.items()
            ),
            hint="give them empty directories, or let these files be moved away: --rewind-sinks",
        )


def rewind(savepoint: Savepoint, sinks: Sinks) -> dict[str, int]:
    """Moves away what came after the savepoint, into a folder beside the files; by sink, how many files."""
    files_by_sink = ahead(savepoint, sinks)
    for name, files in files_by_sink.items():
        folder = files[0].parent
        with _alone(name, folder):
            aside = folder / f"_replaced-{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}"
            aside.mkdir()
            for path in reversed(files):  # so that what is left has no gap, whenever we are killed
                os.rename(path, aside / path.name)
            sync(aside)
            sync(folder)
    return {name: len(files) for name, files in files_by_sink.items()}


@contextmanager
def _alone(name: str, folder: Path) -> Iterator[None]:
    """No sink writes here, as long as this lasts."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise SavepointError(
            f"a process writes into '{folder}', the directory of the sink '{name}'", hint="stop it first"
        ) from None
    finally:
        os.close(handle)
