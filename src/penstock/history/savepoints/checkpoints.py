"""Spark's checkpoints in a savepoint: copied while Spark writes them, then cut to the epochs that the store has.

A file of Spark's logs appears whole, under its number, and never changes; old ones are deleted. So copies only add up.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from penstock.history.savepoints.manifest import SavepointError, StreamCut
from penstock.store import Progress

_PARTS: Final = ("offsets", "commits", "sources", "state")
_LOGGED: Final = re.compile(r"(\d+)(\.compact)?")
#: A file of Spark's state that belongs to a version of it.
_VERSION: Final = re.compile(r"(\d+)(_[0-9a-f-]+)?\.(zip|changelog|delta|snapshot)(\.crc)?")
#: Spark keeps a hundred epochs, and none takes less than some hundredths of a second.
_EACH: Final = 0.25


class Checkpoints:
    """Copies of all streams' checkpoints. `queries` are their ids by stream, as first seen."""

    def __init__(self, source: Path, target: Path) -> None:
        self.source, self.target = source, target
        self.queries = queries(source)

    def copy(self) -> None:
        """Copies what is new."""
        for stream in self.queries:
            _copy(self.source / stream / "metadata", self.target / stream / "metadata")
            for part in _PARTS:
                for above, _, files in os.walk(self.source / stream / part):
                    for path in (Path(above) / name for name in files if not name.startswith(".")):
                        _copy(path, self.target / path.relative_to(self.source))

    @contextmanager
    def copying(self) -> Iterator[None]:
        """Copies over and over until the end of the block: what Spark deletes meanwhile may be needed."""
        done = threading.Event()

        def go_on() -> None:
            while not done.wait(_EACH):
                with suppress(OSError, SavepointError):  # the last copy tells
                    self.copy()

        self.copy()
        thread = threading.Thread(target=go_on, name="penstock-savepoint", daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()
        self.copy()

    def cut(self, progress: Callable[[str], Progress | None]) -> dict[str, StreamCut]:
        """Leaves what belongs to the epochs that the store's copy has; refuses what does not belong together."""
        cuts = {}
        for stream, query in self.queries.items():
            last = progress(query)
            cut = StreamCut(query, -1, "") if last is None else StreamCut(query, last.epoch, last.offsets)
            _cut(stream, self.target / stream, cut)
            cuts[stream] = cut
        return cuts


def queries(checkpoints: Path) -> dict[str, str]:
    """The id of each stream's query; a stream that has none yet has read nothing."""
    ids = {}
    for folder in sorted(checkpoints.iterdir()) if checkpoints.is_dir() else ():
        try:
            ids[folder.name] = str(json.loads((folder / "metadata").read_text())["id"])
        except (FileNotFoundError, NotADirectoryError):
            continue
        except (ValueError, KeyError) as error:
            raise SavepointError(
                f"the checkpoint of the stream '{folder.name}' is damaged", detail=f"{folder / 'metadata'}: {error}"
            ) from error
    return ids


def _copy(source: Path, target: Path) -> None:
    with suppress(FileNotFoundError):  # of the state, one that was still being written may be copied in part
        if target.stat().st_size == source.stat().st_size:
            return
    target.parent.mkdir(parents=True, exist_ok=True)
    hidden = target.with_name(f".{target.name}")
    try:
        shutil.copyfile(source, hidden)
    except FileNotFoundError:
        return  # deleted since it was listed
    hidden.rename(target)


def _cut(stream: str, folder: Path, cut: StreamCut) -> None:
    """Spark starts from the last two epochs of its logs; the last one comes again if it is not marked as done."""
    for part in ("offsets", "commits"):
        _keep(folder / part, cut.epoch - 1, cut.epoch)
    for path in (folder / "state").rglob("*"):
        version = _VERSION.fullmatch(path.name)
        if version and int(version[1]) > cut.epoch + 1:  # an epoch takes the state of its number, and leaves the next
            path.unlink()
    if cut.epoch < 0:
        for source in (folder / "sources").glob("*"):
            if _is_file_log(source):
                _keep(source, 0, -1)
        return
    needed = [number for number in (cut.epoch - 1, cut.epoch) if number >= 0]
    offsets = [_offsets(folder / "offsets" / str(number)) for number in needed]
    missing = [str(number) for number, entry in zip(needed, offsets, strict=True) if entry is None]
    if missing:
        raise _apart(stream, f"the store has epoch {cut.epoch}, and the checkpoint lacks {', '.join(missing)}")
    before, last = offsets[0] or [], offsets[-1] or []
    if "\n".join(last) != cut.offsets:
        raise _apart(stream, f"the offsets of epoch {cut.epoch} are {cut.offsets} and {' '.join(last)}")
    for number, offset in enumerate(last):
        end = _log_offset(offset)
        if end is not None:
            start = _log_offset(before[number]) if cut.epoch and number < len(before) else None
            _cut_file_log(stream, folder / "sources" / str(number), -1 if start is None else start, end)


def _offsets(path: Path) -> list[str] | None:
    """The offset of each source, below the version and what else Spark notes of an epoch."""
    return path.read_text().splitlines()[2:] if path.exists() else None


def _log_offset(text: str) -> int | None:
    """The last entry of the log of files that an offset stands for; other sources keep no such log.

    >>> _log_offset('{"logOffset":7}'), _log_offset('{"topic":{"0":7}}'), _log_offset("7")
    (7, None, None)
    """
    try:
        offset: Any = json.loads(text)
    except ValueError:
        return None
    return int(offset["logOffset"]) if isinstance(offset, dict) and "logOffset" in offset else None


def _is_file_log(folder: Path) -> bool:
    """Whether a source keeps a log of files there, by what its first entry says; Kafka keeps where the query began."""
    first = folder / "0"
    lines = first.read_text().splitlines() if first.exists() else []
    return len(lines) > 1 and lines[0] == "v1" and '"batchId"' in lines[1]


def _cut_file_log(stream: str, folder: Path, start: int, end: int) -> None:
    """Leaves the entries after `start`, which the last epoch reads, and all that says which files were read before.

    Spark takes a file for read if its log of files has it: with entries of later epochs they would come in other cuts.
    """
    entries = _keep(folder, 0, end)
    compacted = [number for number, path in entries if path.suffix]  # each holds all entries before it
    missing = set(range(max(compacted, default=-1) + 1, end + 1)) - {number for number, _ in entries}
    if missing:
        raise _apart(stream, f"its log of files lacks the entries {sorted(missing)}")
    _keep(folder, max((number for number in compacted if number <= start), default=0), end)


def _keep(folder: Path, first: int, last: int) -> list[tuple[int, Path]]:
    """Removes the entries of a log before the first one and after the last one; those that are left."""
    entries = [(_LOGGED.fullmatch(path.name), path) for path in folder.iterdir()] if folder.is_dir() else []
    numbered = sorted((int(match[1]), path) for match, path in entries if match)
    for number, path in numbered:
        if not first <= number <= last:
            path.unlink()
    return [(number, path) for number, path in numbered if first <= number <= last]


def _apart(stream: str, detail: str) -> SavepointError:
    return SavepointError(
        f"the store and the checkpoint of the stream '{stream}' do not belong together",
        detail=detail,
        hint="restore both from one savepoint, or start from the beginning in another directory",
    )
