"""Where savepoints lie: found by name, listed, dropped. What a killed process has left is hidden, and cleared away."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from penstock.errors import unknown
from penstock.history.savepoints.manifest import FOLDER, MANIFEST, Savepoint, SavepointError, check_name

_HIDDEN: Final = re.compile(r"\..+\.(\d+)\.part")


def hidden_name(name: str) -> str:
    """The name of what is being made or removed; it tells which process does so."""
    return f".{name}.{os.getpid()}.part"


def clear_leftovers(folder: Path) -> None:
    """Removes what processes that are no more were making or removing."""
    for path in folder.iterdir():
        match = _HIDDEN.fullmatch(path.name)
        if match and not _lives(int(match[1])):
            shutil.rmtree(path, ignore_errors=True)


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def find(name: str, directory: Path, path: Path | None = None) -> Savepoint:
    """A savepoint by its name: of the app in a directory, or at a path, which may be another app's directory."""
    check_name(name)
    if path is None:
        places = [directory / FOLDER / name]
    else:
        places = [path / FOLDER / name, path / name, path]
    for place in places:
        if (place / MANIFEST).exists():
            savepoint = Savepoint.read(place)
            if savepoint.name != name:
                raise SavepointError(
                    f"'{place}' is the savepoint '{savepoint.name}', not '{name}'", hint=f"restore {savepoint.name}"
                )
            return savepoint
    raise unknown("savepoint", name, _names((path or directory) / FOLDER))


def _names(folder: Path) -> list[str]:
    there = sorted(folder.iterdir()) if folder.is_dir() else []
    return [path.name for path in there if not path.name.startswith(".") and path.is_dir()]


def listed(directory: Path) -> Iterator[tuple[str, Savepoint | None]]:
    """The savepoints of an app by name, oldest first, then the damaged ones, as None."""
    savepoints: list[Savepoint] = []
    damaged: list[str] = []
    for name in _names(directory / FOLDER):
        try:
            savepoints.append(Savepoint.read(directory / FOLDER / name))
        except SavepointError:
            damaged.append(name)
    yield from ((point.path.name, point) for point in sorted(savepoints, key=lambda point: point.made))
    yield from ((name, None) for name in damaged)


def drop(name: str, directory: Path) -> None:
    """Removes a savepoint of an app, also a damaged one."""
    check_name(name)
    folder = directory / FOLDER
    if name not in _names(folder):
        raise unknown("savepoint", name, _names(folder))
    clear_leftovers(folder)
    hidden = folder / hidden_name(name)
    (folder / name).rename(hidden)
    shutil.rmtree(hidden)
