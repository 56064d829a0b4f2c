"""Removes files that nobody needs any more: replaced ones after a grace, and those that no list names.

A file's name begins with the id of the attempt that wrote it, up to the first dot. An attempt that is still running may
list its files later. A file of any other attempt that is not listed is garbage. So are its files in the folder `spool`,
where epochs exchange deltas.

>>> write_id_of("spool/7-3f2a11-42-a9.3.arrow")
'7-3f2a11-42-a9'
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import Final, Protocol

from penstock.model.time import Duration, Instant, duration
from penstock.state.pane_file import PaneFile
from penstock.state.segment import Segment, paths
from penstock.state.spool import FOLDER

#: How long replaced segments stay: readers may still map them.
GRACE: Final = duration("10 minutes")
#: How long files of panes stay after all readers have them: a reader maps them as soon as it has read the outbox.
PANE_GRACE: Final = duration("10 seconds")
_OURS: Final = re.compile(r"\d+-")


class SegmentList(Protocol):
    """A store that lists segments. It is this process's to write."""

    @property
    def segments_at(self) -> str: ...

    def check_owner(self) -> None: ...

    def needed_segments(self) -> list[Segment]:
        """All that are listed, also replaced ones. No transaction is open meanwhile."""

    def replaced_segments(self, before: Instant) -> list[Segment]: ...

    def forget_segments(self, segments: Collection[Segment]) -> None: ...

    def needed_pane_files(self) -> list[PaneFile]:
        """All files of panes that are listed, also those that nobody needs any more."""

    def removed_pane_files(self, before: Instant) -> list[PaneFile]: ...

    def forget_pane_files(self, files: Collection[PaneFile]) -> None: ...

    def generation_writes(self) -> frozenset[str]:
        """The write ids of generations in the making."""

    def first_time(self, commit: int) -> Instant | None:
        """The earliest time of a commit and those after it; None if the commit is not known any more."""


def write_id_of(name: str) -> str:
    """The id that a file was written under."""
    return name.rpartition("/")[2].partition(".")[0]


def sweep_replaced(store: SegmentList, now: Instant, grace: Duration = GRACE, needed_from: int | None = None) -> int:
    """Removes the files of segments that were replaced longer than a grace ago; how many.

    `needed_from` is the oldest commit that a pin names: whatever was listed then stays. A file with several segments
    goes when none of them is needed.
    """
    before = _before(store, now - grace, needed_from)
    replaced = [] if before is None else store.replaced_segments(before)
    if not replaced:
        return 0
    gone = set(replaced)
    needed = set(paths(segment for segment in store.needed_segments() if segment not in gone))
    removed = [path for path in paths(replaced) if path not in needed]
    _remove(store, removed)
    store.forget_segments([segment for segment in replaced if segment.path not in needed])
    return len(removed)


def sweep_panes(store: SegmentList, now: Instant, grace: Duration = PANE_GRACE, needed_from: int | None = None) -> int:
    """Removes the files of panes that everyone had longer than a grace ago, except what a pin names; how many."""
    before = _before(store, now - grace, needed_from)
    files = [] if before is None else store.removed_pane_files(before)
    if files:
        _remove(store, [file.path for file in files])
        store.forget_pane_files(files)
    return len(files)


def _before(store: SegmentList, before: Instant, needed_from: int | None) -> Instant | None:
    """Before which time a file must have been replaced to be removed; None if all must stay."""
    if needed_from is None:
        return before
    pinned = store.first_time(needed_from)
    return None if pinned is None else min(before, pinned)


def sweep_orphans(store: SegmentList, writes: Callable[[], Iterable[str]]) -> int:
    """Removes files that no list names, except those of the write ids in flight; how many."""
    # The order matters. A file that is there now belongs to an attempt that is running, or to one that ended before
    # the list is read, and then its segments are listed.
    files = _names(Path(store.segments_at))
    running = {*writes(), *store.generation_writes()}
    listed = {*paths(store.needed_segments()), *(file.path for file in store.needed_pane_files())}
    orphans = [name for name in files if name not in listed and write_id_of(name) not in running]
    _remove(store, orphans)
    return len(orphans)


def _names(root: Path) -> list[str]:
    """The files that epochs, generations and compaction have written, relative to the folder."""
    files = sorted(path for path in root.rglob("*") if path.is_file())
    names = [path.relative_to(root).as_posix() for path in files]
    return [name for name in names if name.startswith(f"{FOLDER}/") or _OURS.match(name.rpartition("/")[2])]


def _remove(store: SegmentList, names: Iterable[str]) -> None:
    for name in names:
        store.check_owner()  # another process may have taken over and be writing
        (Path(store.segments_at) / name).unlink(missing_ok=True)
