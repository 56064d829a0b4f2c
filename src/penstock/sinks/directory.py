"""A directory into which each pane goes once, whatever fails: files named by the pane ids that they hold.

A file is written under a temporary name, made durable, and moved to its own, all or nothing. So the names tell how far
the sink is, also when the process dies before the store learns of it. The file `_penstock.json` says whose they are.

A process that hangs, and whose app another one has taken over, may wake up in the middle of this. Before it moves a
file to its place it looks whether the app is still its own; who takes over removes, after that has become so, all files
under temporary names. So it either finds that it is too late, or has nothing left to move, or was in time and is seen.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import BinaryIO, Final
from uuid import uuid4

from penstock.durable import flush, make_directory
from penstock.private import public
from penstock.sinks.base import Outbox, SinkError, newest_pane

MANIFEST: Final = "_penstock.json"
_TEMPORARY: Final = ".writing"
_NAME: Final = re.compile(r"(\d{12,})-(\d{12,})\.(jsonl|parquet)")


def files_of(path: Path | str) -> list[tuple[int, int, Path]]:
    """The files of a directory, in order: the first and last pane id that they hold, and the path."""
    matches = ((_NAME.fullmatch(entry.name), entry) for entry in Path(path).iterdir())
    return sorted((int(match[1]), int(match[2]), entry) for match, entry in matches if match)


class Directory:
    """A directory of one sink, open for writing by this process alone. `position` is the last pane in it.

    Its manifest has the owner, who stays the same, and what else there is to say `about` the first file.
    """

    def __init__(
        self,
        path: Path,
        suffix: str,
        owner: Mapping[str, object],
        outbox: Outbox,
        *,
        about: Mapping[str, object],
        check_owner: Callable[[], object] = lambda: None,
        takes_over: bool = False,
    ) -> None:
        self.path, self._suffix, self._owner, self._outbox = path, suffix, dict(owner), outbox
        self._about = dict(about)
        self._check_still_ours = check_owner
        self._temporary = path / f"{_TEMPORARY}-{uuid4().hex}"
        try:
            make_directory(path, public)
            self._handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise SinkError(
                f"cannot use the directory '{path}': {error.strerror}", hint="choose one that can be written"
            ) from error
        try:
            self._lock(takes_over)
            self._check_owner()
            for left in path.glob(f"{_TEMPORARY}*"):
                left.unlink(missing_ok=True)
            self.position = self._last()
            self._begun = False
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        os.close(self._handle)

    def write(self, first: int, last: int, write: Callable[[BinaryIO], None]) -> None:
        """Adds a file with these panes; when this returns, it is durable."""
        if first <= self.position:
            raise SinkError(
                f"'{self.path}' has the panes up to {self.position} already, and was given {first} to {last}"
            )
        if not self._begun:
            self._begin()
            self._begun = True
        self._place(f"{first:012}-{last:012}.{self._suffix}", write)
        self.position = last

    def _place(self, name: str, write: Callable[[BinaryIO], None]) -> None:
        with self._temporary.open("wb") as file:
            write(file)
            flush(file)
        public(self._temporary)
        self._check_still_ours()
        os.rename(self._temporary, self.path / name)
        try:
            os.fsync(self._handle)
        except OSError:
            (self.path / name).unlink()  # not known to be safe: it is written again, perhaps with more panes
            raise

    # whose it is

    def _lock(self, takes_over: bool) -> None:
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if takes_over and self._is_of_this_store():
                return  # it hangs, or is about to find out
            raise SinkError(
                f"another sink or process writes into '{self.path}'", hint="give each sink a directory of its own"
            ) from None

    def _manifest(self) -> dict[str, object] | None:
        try:
            manifest: dict[str, object] = json.loads((self.path / MANIFEST).read_text())
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise SinkError(f"'{self.path / MANIFEST}' is damaged", detail=str(error), hint=_ELSEWHERE) from error
        return manifest

    def _check_owner(self) -> None:
        manifest = self._manifest()
        if manifest is None:
            if files_of(self.path):
                raise SinkError(f"'{self.path}' holds files without a manifest", hint=_ELSEWHERE)
            return
        for what, own_value in self._owner.items():
            if manifest.get(what) != own_value:
                raise SinkError(
                    f"'{self.path}' holds the files of another sink",
                    detail=f"its {what} is {_short(manifest.get(what))}, and ours {_short(own_value)}",
                    hint=_ELSEWHERE,
                )

    def _is_of_this_store(self) -> bool:
        manifest = self._manifest()
        return manifest is None or manifest.get("store") == birth_of(self._outbox)

    def _begin(self) -> None:
        """Says whose the files are before the first one; and that the store is the one that the others came from."""
        birth, manifest = birth_of(self._outbox), self._manifest()
        if manifest is None:
            text = json.dumps({**self._owner, **self._about, "store": birth}, indent=2)
            self._place(MANIFEST, lambda file: _write_text(file, text))
        elif None not in (birth, manifest.get("store")) and manifest["store"] != birth:
            raise SinkError(
                f"'{self.path}' holds panes of another store, whose pane ids are different", hint=_ELSEWHERE
            )

    def _last(self) -> int:
        """The last pane that is there; refuses files that this store cannot have given."""
        files, last = files_of(self.path), 0
        for first, end, path in files:
            if first <= last or end < first:
                raise SinkError(f"'{path}' overlaps with the file before it", hint=_ELSEWHERE)
            last = end
        newest = newest_pane(self._outbox)
        if last > newest:
            raise SinkError(
                f"'{self.path}' holds panes up to {last}, and the store has fired {newest} only",
                detail="the store was reset, or restored from an older copy",
                hint=_ELSEWHERE,
            )
        return last


_ELSEWHERE: Final = "choose an empty directory, or move these files away with their " + MANIFEST


def birth_of(outbox: Outbox) -> int | None:
    """What distinguishes a store from one that replaced it: the time of its first commit."""
    commit = outbox.query(
        "SELECT value FROM __meta WHERE name = 'born' UNION ALL SELECT now FROM __commits WHERE number = 1 LIMIT 1"
    )
    return int(commit.item()) if commit.height else None


def _write_text(file: BinaryIO, text: str) -> None:
    file.write(text.encode() + b"\n")


def _short(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 300 else text[:300] + "…"
