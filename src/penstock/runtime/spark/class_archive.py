"""The classes that Spark loads, parsed once and kept in a file that Java maps when it starts: a class-data archive.

Loading some 15,000 classes is half of what a start costs. Java records which classes the first app loads. When that app
has run for a while, or ends, another Java makes the archive from that list, at low priority. Later starts use it. Java
checks that the archive fits, and starts without it where it does not. Another Java or class path has another archive.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from penstock.private import is_owned
from penstock.runtime.spark.jars import cache

#: Turns it off: neither is an archive used, nor made.
OFF: Final = "PENSTOCK_CLASS_ARCHIVE"
_FORMAT: Final = "1"
_LIST, _ARCHIVE = "classes.lst", "classes.jsa"
#: Seconds without a newly loaded class after which an app has what it needs.
_STEADY: Final = 20.0
#: Makes the archive under another name, and puts it into its place whole. The shell holds the lock meanwhile.
_MAKE: Final = 'nice -n 19 "$@" >/dev/null 2>&1 && mv -f "$0.new" "$0"; rm -f "$0.new"'


@dataclass(frozen=True)
class ClassArchive:
    """The archive for one Java and one class path, in a folder of the cache. Without a folder there is none."""

    program: str
    class_path: tuple[str, ...]
    folder: Path | None
    #: A list with fewer classes is of an app that ended while it started.
    fewest: int = 5000

    @classmethod
    def of(cls, program: str, class_path: Sequence[str]) -> ClassArchive:
        """The one for this Java and these jars."""
        return cls(program, tuple(class_path), None if os.environ.get(OFF) == "0" else _folder(program, class_path))

    @property
    def path(self) -> Path | None:
        """Where it is, if it is there and nobody else can have written it."""
        if self.folder is None:
            return None
        path = self.folder / _ARCHIVE
        return path if is_owned(self.folder) and is_owned(path) else None

    def options(self) -> list[str]:
        """With which options Java starts: it uses the archive, or records what the archive is to have."""
        if self.folder is None:
            return []
        if self.path is not None:
            return [f"-XX:SharedArchiveFile={self.path}", "-Xshare:auto"]
        return [f"-XX:DumpLoadedClassList={self._recorded(os.getpid())}"]

    def make(self, recorder: int) -> bool:
        """Begins to make it from what the Java of this process has recorded; whether it does. It goes on by itself.

        Of several processes one does.
        """
        if self.folder is None or self.path is not None:
            return False
        recorded = self._recorded(recorder)
        try:
            lines = recorded.read_bytes().splitlines(keepends=True)
            if len(lines) < self.fewest:
                return False
            lock = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError:
            return False
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            classes = self.folder / _LIST
            classes.write_bytes(b"".join(line for line in lines if line.endswith(b"\n")))  # the last one may be cut off
            for left in self.folder.glob(f"{_LIST}.*"):  # of processes that were killed too
                left.unlink(missing_ok=True)
            self._start(classes, lock)
        except OSError:  # another process makes it, or the disk is full
            return False
        finally:
            os.close(lock)
        return True

    def make_when_steady(self, recorder: int, seconds: float = _STEADY) -> None:
        """Waits until Java has loaded no class for `seconds`, and makes it."""
        size = -1
        while self.folder is not None and self.path is None:
            time.sleep(seconds)
            try:
                recorded = self._recorded(recorder).stat().st_size
            except OSError:  # another process makes it
                return
            if recorded == size and self.make(recorder):
                return
            size = recorded

    def _start(self, classes: Path, lock: int) -> None:
        assert self.folder is not None
        archive = self.folder / _ARCHIVE
        command = [
            self.program, "-Xshare:dump", f"-XX:SharedClassListFile={classes}", f"-XX:SharedArchiveFile={archive}.new",
            "-Xmx1g", "-Xlog:disable", "-cp", os.pathsep.join(self.class_path),
        ]  # fmt: skip
        subprocess.Popen(
            ["sh", "-c", _MAKE, str(archive), *command],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            start_new_session=True, pass_fds=(lock,),
        )  # fmt: skip

    def _recorded(self, recorder: int) -> Path:
        assert self.folder is not None
        return self.folder / f"{_LIST}.{recorder}"


def _folder(program: str, class_path: Sequence[str]) -> Path | None:
    """A folder for this Java and these jars, by what they are: their paths, sizes and times."""
    digest = hashlib.sha256(_FORMAT.encode())
    try:
        for path in (shutil.which(program) or program, *class_path):
            real = os.path.realpath(path)
            status = os.stat(real)
            digest.update(f"{path}\0{real}\0{status.st_size}\0{status.st_mtime_ns}\0".encode())
        folder = cache() / f"java-{digest.hexdigest()[:12]}"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:  # the cache cannot be written
        return None
    return folder
