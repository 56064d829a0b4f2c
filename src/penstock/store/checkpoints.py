"""Where Spark's checkpoints lie: in the app's directory, or at a URL of any file system that Spark and fsspec know.

Spark writes them. The driver reads two small files of them each epoch, and removes those of a stream that is gone.

>>> where = Place("file:///data/checkpoints") / "visits"
>>> str(where), where.local
('file:///data/checkpoints/visits', PosixPath('/data/checkpoints/visits'))
"""

from __future__ import annotations

import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from penstock.store.base import StoreError

FOLDER: Final = "checkpoints"
#: Holds the URL of checkpoints that do not lie in the app's directory.
NOTE: Final = "checkpoints.url"


@dataclass(frozen=True)
class Place:
    """A file or a folder, by its path or its URL."""

    at: str

    def __str__(self) -> str:
        return self.at

    def __truediv__(self, name: str) -> Place:
        return Place(f"{self.at.rstrip('/')}/{name}")

    @property
    def is_url(self) -> bool:
        return "://" in self.at

    @property
    def local(self) -> Path | None:
        """The path, where this is on a disk of the machine."""
        if not self.is_url:
            return Path(self.at)
        url = urlsplit(self.at)
        return Path(url.path) if url.scheme == "file" and url.netloc in ("", "localhost") else None

    @property
    def url(self) -> str:
        """The location for Spark: a path alone would mean the file system that it is set up for."""
        return self.at if self.is_url else f"file://{Path(self.at).absolute()}"

    def exists(self) -> bool:
        if not self.is_url:
            return Path(self.at).exists()
        files, path = self._files()
        files.invalidate_cache()
        return bool(files.exists(path))

    def read_text(self) -> str:
        if not self.is_url:
            return Path(self.at).read_text()
        files, path = self._files()
        return bytes(files.cat_file(path)).decode()

    def remove(self) -> None:
        """Removes it with all that is in it, if it is there."""
        if not self.is_url:
            shutil.rmtree(self.at, ignore_errors=True)
            return
        files, path = self._files()
        with suppress(FileNotFoundError):
            files.rm(path, recursive=True)

    def _files(self) -> tuple[Any, str]:
        from fsspec.core import url_to_fs

        try:
            filesystem: tuple[Any, str] = url_to_fs(self.at)
        except (ImportError, ValueError) as error:
            raise StoreError(
                f"'{self.at}' is on a file system that this Python cannot read",
                detail=str(error),
                hint="the driver reads checkpoints too: install fsspec's part for it (s3fs, gcsfs, adlfs …)",
            ) from error
        return filesystem


def checkpoints(directory: Path, location: str | Path | None = None) -> Place:
    """Where the checkpoints of an app are: at the given place, else where they were, else in its directory."""
    note = directory / NOTE
    if location is None:
        return Place(note.read_text().strip()) if note.exists() else Place(str(directory / FOLDER))
    if "://" not in str(location):
        location = f"file://{Path(location).absolute()}"
    return Place(str(location))


def remember(directory: Path, place: Place) -> None:
    """Where they lie is known from now on to all who look at the directory."""
    if place.is_url and not ((directory / NOTE).exists() and (directory / NOTE).read_text().strip() == place.at):
        hidden = directory / f".{NOTE}"
        hidden.write_text(f"{place.at}\n")
        hidden.rename(directory / NOTE)
