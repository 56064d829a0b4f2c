"""Where the history lies: a directory, or a place that a URL names. Files are made there whole, read, and removed."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO, Final

import pyarrow as pa
from pyarrow import fs

from penstock.durable import flush, make_directory, sync
from penstock.errors import PenstockError

_CHUNK: Final = 1 << 20


class LakeError(PenstockError):
    """The history cannot be read or written, or is not what the store says of it."""


class ChecksumFile:
    """A file that is being written, with the sum of all that was written. Arrow takes it for a file."""

    def __init__(self, file: Any) -> None:
        self._file, self._sum, self.bytes = file, hashlib.sha256(), 0
        self.closed = False

    def write(self, data: Any) -> int:
        self._file.write(data)
        self._sum.update(data)
        self.bytes += memoryview(data).nbytes
        return memoryview(data).nbytes

    def tell(self) -> int:
        return self.bytes

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        """Makes it durable where this is a file of our own; elsewhere to close is to make it durable."""
        if self.closed:
            return
        self.closed = True
        if not isinstance(self._file, pa.NativeFile):
            flush(self._file)
        self._file.close()

    def readable(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False

    @property
    def checksum(self) -> str:
        return self._sum.hexdigest()


@dataclass(frozen=True)
class Place:
    """A directory or a URL. It is a value that travels to tasks; what it stands for is opened where it is used."""

    location: str

    @property
    def is_local(self) -> bool:
        return isinstance(_opened(self.location)[0], fs.LocalFileSystem)

    def path(self, name: str) -> str:
        """A file's path as its file system knows it."""
        return f"{_opened(self.location)[1]}/{name}"

    def for_spark(self, name: str) -> str:
        """A file as Spark names it: characters that it takes for a pattern are escaped."""
        root = "file://" + _opened(self.location)[1] if self.is_local else self.location.rstrip("/")
        return re.sub(r"([\\\[\]{}*?])", r"\\\1", re.sub(r"^s3://", "s3a://", f"{root}/{name}"))

    def create(self, name: str) -> ChecksumFile:
        """A new file. It counts only once a commit lists it, so it needs no other name while it is written."""
        filesystem, root = _opened(self.location)
        path = f"{root}/{name}"
        if isinstance(filesystem, fs.PyFileSystem | fs.HadoopFileSystem):  # object stores have no folders
            filesystem.create_dir(path.rpartition("/")[0], recursive=True)
        if not isinstance(filesystem, fs.LocalFileSystem):
            return ChecksumFile(filesystem.open_output_stream(path))
        try:
            make_directory(Path(path).parent)
            return ChecksumFile(open(path, "xb"))
        except OSError as error:
            raise LakeError(
                f"cannot write the history's file '{path}': {error.strerror}",
                hint="give the process write access there, or free disk space",
            ) from error

    def settle(self, name: str) -> None:
        """Makes the entry of a file durable, where that is ours to do."""
        if self.is_local:
            sync(Path(self.path(name)).parent)

    def open(self, name: str) -> pa.NativeFile:
        """A file to read, from wherever."""
        return _opened(self.location)[0].open_input_file(self.path(name))

    def size(self, name: str) -> int | None:
        """A file's size, None if it is not there."""
        info = _opened(self.location)[0].get_file_info(self.path(name))
        return None if info.type == fs.FileType.NotFound else int(info.size or 0)

    def checksum(self, name: str) -> Iterator[int | str]:
        """How many bytes were read each time, and at the end their sum."""
        summed = hashlib.sha256()
        with self.open(name) as file:
            while part := file.read(_CHUNK):
                summed.update(part)
                yield len(part)
        yield summed.hexdigest()

    def remove(self, name: str) -> None:
        """Removes a file, if it is still there."""
        try:
            _opened(self.location)[0].delete_file(self.path(name))
        except FileNotFoundError:
            return

    def names(self, folder: str) -> list[str]:
        """All files below a folder, relative to the location."""
        filesystem, root = _opened(self.location)
        select = fs.FileSelector(f"{root}/{folder}", recursive=True, allow_not_found=True)
        files = (info.path for info in filesystem.get_file_info(select) if info.type == fs.FileType.File)
        return [path.removeprefix(root).lstrip("/") for path in files]

    def link(self, name: str, target: Path) -> None:
        """Puts a file at a path too: at no cost where both lie on one disk."""
        target.parent.mkdir(parents=True, exist_ok=True)
        if self.is_local:
            try:
                os.link(self.path(name), target)
                return
            except OSError:
                target.unlink(missing_ok=True)
        with self.open(name) as file, target.open("wb") as copy:
            _copied(file, copy)


@lru_cache(maxsize=16)
def _opened(location: str) -> tuple[fs.FileSystem, str]:
    """The file system of a location, and the path in it."""
    scheme = re.match(r"([a-z][a-z0-9+.-]*)://", location)
    if scheme is None or scheme[1] == "file":
        return fs.LocalFileSystem(), os.path.abspath(location.removeprefix("file://"))
    try:
        filesystem, root = fs.FileSystem.from_uri(location)
        return filesystem, root.rstrip("/")
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError) as error:
        return _by_fsspec(location, scheme[1], error)


def _by_fsspec(location: str, scheme: str, error: Exception) -> tuple[fs.FileSystem, str]:
    """What Arrow does not know itself, fsspec may."""
    try:
        filesystem, root = import_module("fsspec.core").url_to_fs(location)
    except (ImportError, ValueError) as unknown:
        raise LakeError(
            f"no installed package can write to '{location}'",
            detail=f"{error}",
            hint=f"install the fsspec package for {scheme}://, or choose a directory",
        ) from unknown
    return fs.PyFileSystem(fs.FSSpecHandler(filesystem)), str(root).rstrip("/")


def _copied(file: pa.NativeFile, copy: BinaryIO) -> None:
    while part := file.read(_CHUNK):
        copy.write(part)
    flush(copy)
