"""The code that goes along to a cluster: Penstock itself, and what lies beside an app's file.

What is pure Python is sent. Libraries with compiled parts (Polars, PyArrow, DuckDB …) must be on the workers.
"""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
import zipfile
from collections.abc import Iterable
from pathlib import Path


def packed(folders: Iterable[Path] = ()) -> list[Path]:
    """Archives that Python can import from: one of Penstock, one for each folder with modules."""
    own = Path(__file__).parents[2]
    every = [(own, _files(own, own.parent))]
    every += [(folder, importable(folder.resolve())) for folder in dict.fromkeys(folders)]
    return [_archive(folder.name or "app", files) for folder, files in every if files]


def beside_main() -> list[Path]:
    """The folder of the file that Python was started with, unless that is part of an installed package."""
    file = getattr(sys.modules.get("__main__"), "__file__", None)
    if file is None or not str(file).endswith(".py"):
        return []
    folder = Path(file).resolve().parent
    return [] if "site-packages" in folder.parts or (folder / "__init__.py").exists() else [folder]


def _files(folder: Path, root: Path) -> dict[str, Path]:
    """All files of a package, by their names in the archive."""
    files = {}
    for above, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name != "__pycache__" and not name.startswith(".")]
        for name in names:
            path = Path(above) / name
            files[path.relative_to(root).as_posix()] = path
    return files


def importable(folder: Path) -> dict[str, Path]:
    """The modules and packages of a folder; what else lies there stays there."""
    paths = {path.name: path for path in folder.glob("*.py")}
    for package in folder.glob("*/__init__.py"):
        paths |= _files(package.parent, folder)
    return paths


def _archive(name: str, files: dict[str, Path]) -> Path:
    """An archive of these files, named by what is in it: the next one of the same is there already."""
    contents = {inside: path.read_bytes() for inside, path in sorted(files.items())}
    digest = hashlib.sha256()
    for inside, content in contents.items():
        digest.update(f"{inside}\0{len(content)}\0".encode() + content)
    archive = _private() / f"{name}-{digest.hexdigest()[:16]}.zip"
    if not archive.exists():
        hidden = archive.with_name(f".{archive.name}.{os.getpid()}")
        with zipfile.ZipFile(hidden, "w", zipfile.ZIP_DEFLATED) as written:
            for inside, content in contents.items():
                written.writestr(inside, content)
        hidden.rename(archive)
    return archive


def _private() -> Path:
    """A directory that only this user can write: executors run what lies in it."""
    shared = Path(tempfile.gettempdir()) / f"penstock-code-{os.getuid()}"
    shared.mkdir(mode=0o700, exist_ok=True)
    status = shared.lstat()
    if status.st_uid == os.getuid() and not status.st_mode & 0o022 and shared.is_dir() and not shared.is_symlink():
        return shared
    return Path(tempfile.mkdtemp(prefix="penstock-code-"))
