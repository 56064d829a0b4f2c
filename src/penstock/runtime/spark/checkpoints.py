"""Spark's checkpoint of a stream after a crash: torn files are mended from what the store knows, or refused.

Spark does not make its small files durable, and the store does: after a power cut, or on a disk that was full, the
newest files of a checkpoint may be empty, cut off or missing. The store knows each query's last epoch with its offsets,
and the epochs before. So a file of an uncommitted epoch is removed (the epoch is cut again), and one of a committed
epoch is written again. What only Spark knew, such as which files of a directory were read, cannot be restored: then the
run is refused.
"""

from __future__ import annotations

import json
import logging
import re
import shutil
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from penstock.durable import flush
from penstock.runtime.errors import RunError
from penstock.store import Reader

_log = logging.getLogger("penstock.runtime")
_ENTRY: Final = re.compile(r"(\d+)(\.compact)?")
#: What Spark notes of an epoch beside its offsets; Penstock's queries keep no state of Spark's, so nothing hangs on it.
_NOTED: Final = '{"batchWatermarkMs":0,"batchTimestampMs":0,"conf":{}}'


def repair(stream: str, checkpoint: Path, store: Reader) -> None:
    """Leaves a checkpoint with which Spark goes on from the store's last commit; refuses what it cannot mend."""
    if checkpoint.is_dir():
        _Repair(stream, checkpoint, store).run()


@dataclass
class _Repair:
    stream: str
    checkpoint: Path
    store: Reader

    def run(self) -> None:
        query = self._query()
        if query is None:
            return
        progress = self.store.progress(query)
        last, offsets = (-1, "") if progress is None else (progress.epoch, progress.offsets)
        self._sources(last, offsets)
        self._commits(last)
        self._new_offsets(last)
        for number in range(max(0, last - 1), last + 1):
            self._known_offsets(query, number)

    # which query it is

    def _query(self) -> str | None:
        """The query's id; by the offsets of its epochs where its file is torn. None: it starts from the beginning."""
        path = self.checkpoint / "metadata"
        try:
            return str(json.loads(path.read_text())["id"])
        except (OSError, ValueError, KeyError, TypeError):
            pass
        taken = {_id(other) for other in self.checkpoint.parent.iterdir() if other != self.checkpoint}
        known = self.store.query("SELECT query FROM __progress").rows()
        candidates = [query for (query,) in known if query not in taken and self._is(query)]
        if len(candidates) == 1:
            self._write(path, json.dumps({"id": candidates[0]}, separators=(",", ":")))
            return str(candidates[0])
        if self.store.counters().get(f"{self.stream}.events") is not None:
            raise self._damaged(path, "it says which query this is, and the store cannot tell by its offsets")
        shutil.rmtree(self.checkpoint)
        self._tell("was written incompletely before its first commit: it starts from the beginning")
        return None

    def _is(self, query: str) -> bool:
        """Whether the epochs of the checkpoint are those that the store remembers of a query."""
        known = dict(self.store.query("SELECT epoch, offsets FROM __commits WHERE query = ?1", [query]).rows())
        logged = _entries(self.checkpoint / "offsets")
        whole = {number: _offsets(path) for number, path in logged if number in known and _is_whole(path, _has_offsets)}
        return bool(whole) and all(known[number] == offsets for number, offsets in whole.items())

    # which files it has read

    def _sources(self, last: int, offsets: str) -> None:
        """A source's own log: entries after the last commit can be found again, those before it cannot."""
        for number, folder in _entries(self.checkpoint / "sources"):
            ends = offsets.splitlines()
            end = _log_offset(ends[number]) if number < len(ends) else None
            logged = _entries(folder)
            if end is None:
                is_files = any(_is_file_log(path) for _, path in logged)
                end = -1 if is_files else None
            torn = [entry for entry, path in logged if not _is_whole(path, _is_listing if end is not None else bool)]
            if end is None:  # Kafka's: where the first run began, which matters no more than once
                self._drop(folder, torn)
                continue
            numbers = {entry for entry, _ in logged}
            compacted = [entry for entry, path in logged if path.suffix and entry <= end and entry not in torn]
            start = max(compacted, default=0)  # a compacted entry holds all that were before it
            lost = [entry for entry in range(start, end + 1) if entry in torn or entry not in numbers]
            if lost:
                raise self._damaged(folder / str(lost[0]), "only it tells which files a committed epoch has read")
            if torn:
                self._drop(folder, [entry for entry in numbers if entry > end])
                self._drop(self.checkpoint / "offsets", [last + 1])

    # which epochs it has done

    def _commits(self, last: int) -> None:
        """A mark that an epoch is done may go: Spark then calls for it again, and it is skipped."""
        marks = _entries(self.checkpoint / "commits")
        if marks and marks[-1][0] > last:
            raise self._behind(last, marks[-1][0])
        self._drop(self.checkpoint / "commits", [number for number, path in marks if not _is_whole(path, _is_mark)])

    # up to where each epoch reads

    def _new_offsets(self, last: int) -> None:
        """An epoch that was not committed is cut again if its offsets are torn."""
        folder = self.checkpoint / "offsets"
        torn = [number for number, path in _entries(folder) if number > last and not _is_whole(path, _has_offsets)]
        if any(number > last + 1 for number in torn):
            raise self._behind(last, max(torn))
        self._drop(folder, torn)

    def _known_offsets(self, query: str, number: int) -> None:
        """Spark starts from the last two epochs: what the store has of them is as good as Spark's own file."""
        path = self.checkpoint / "offsets" / str(number)
        if _is_whole(path, _has_offsets):
            return
        known = self.store.query("SELECT offsets FROM __commits WHERE query = ?1 AND epoch = ?2", [query, number])
        if not known.height:
            raise self._damaged(path, "the store remembers that epoch no more")
        self._write(path, f"v1\n{_NOTED}\n{known.item()}")

    # files

    def _write(self, path: Path, text: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        hidden = path.with_name(f".{path.name}.mended")
        with hidden.open("wb") as file:
            file.write(text.encode())
            flush(file)
        _sums(path).unlink(missing_ok=True)
        hidden.rename(path)
        self._tell(f"was torn: {path.relative_to(self.checkpoint)} is written again from the store")

    def _drop(self, folder: Path, numbers: list[int]) -> None:
        for number, path in _entries(folder):
            if number in numbers:
                _sums(path).unlink(missing_ok=True)
                path.unlink()
                self._tell(f"was torn: {path.relative_to(self.checkpoint)} is taken away")

    def _tell(self, what: str) -> None:
        _log.warning("the checkpoint of the stream '%s' %s", self.stream, what)

    def _damaged(self, path: Path, why: str) -> RunError:
        return RunError(
            f"the checkpoint of the stream '{self.stream}' is damaged: {path.relative_to(self.checkpoint)}",
            detail=f"{path}: {why}",
            hint="restore a savepoint, or start from the beginning in another directory",
        )

    def _behind(self, last: int, number: int) -> RunError:
        return RunError(
            f"the store is behind Spark's log of the stream '{self.stream}': it has epoch {last}, Spark is at {number}",
            hint="restore the store, or a savepoint: this one is older than the checkpoint",
        )


def _entries(folder: Path) -> list[tuple[int, Path]]:
    """The numbered entries of a log, in order."""
    matches = [(_ENTRY.fullmatch(path.name), path) for path in folder.iterdir()] if folder.is_dir() else []
    return sorted((int(match[1]), path) for match, path in matches if match)


def _is_whole(path: Path, is_valid: Callable[[str], bool]) -> bool:
    """Whether a file is there, says what it should, and agrees with the sums that Spark keeps beside it."""
    try:
        data = path.read_bytes()
        text = data.decode()
    except (OSError, ValueError):
        return False
    return is_valid(text) and _agrees(data, _sums(path))


def _sums(path: Path) -> Path:
    return path.with_name(f".{path.name}.crc")


def _agrees(data: bytes, sums: Path) -> bool:
    """Compares with Hadoop's file of sums: 'crc', a zero, the length of a piece, and the CRC-32 of each piece."""
    if not sums.exists():
        return True
    kept = sums.read_bytes()
    if kept[:4] != b"crc\0" or len(kept) < 8:
        return False
    (length,) = struct.unpack(">i", kept[4:8])
    if length <= 0:
        return False
    made = b"".join(struct.pack(">I", zlib.crc32(data[at : at + length])) for at in range(0, len(data), length))
    return kept[8:] == made


def _has_offsets(text: str) -> bool:
    lines = text.splitlines()
    return len(lines) > 2 and lines[0] == "v1" and all(_is_json(line) or line == "-" for line in lines[1:])


def _is_mark(text: str) -> bool:
    lines = text.splitlines()
    return len(lines) > 1 and lines[0] == "v1" and all(map(_is_json, lines[1:]))


def _is_listing(text: str) -> bool:
    lines = text.splitlines()
    return bool(lines) and lines[0] == "v1" and all(map(_is_json, lines[1:]))


def _is_file_log(path: Path) -> bool:
    return '"batchId"' in path.read_text(errors="replace")


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def _offsets(path: Path) -> str | None:
    """What the store would remember of an epoch's offsets."""
    try:
        return "\n".join(path.read_text().splitlines()[2:])
    except (OSError, ValueError):
        return None


def _log_offset(text: str) -> int | None:
    """The last entry of a log of files that an offset stands for; other sources keep no such log."""
    offset: Any = json.loads(text) if _is_json(text) else None
    return int(offset["logOffset"]) if isinstance(offset, dict) and "logOffset" in offset else None


def _id(checkpoint: Path) -> str | None:
    try:
        return str(json.loads((checkpoint / "metadata").read_text())["id"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
