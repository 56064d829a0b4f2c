"""The files of an epoch, cut into slices of about the same size for Spark's tasks. A large file of text is cut, too.

A part of a file has the lines that begin in it, each at the position of its first byte. So rows and positions are the
same however files are cut, and the cut may follow the size of the cluster.

>>> cut([FileRange("a"), FileRange("b")], [10, 70], slices=2)
((FileRange('a'), FileRange('b', 0, 30)), (FileRange('b', 30),))
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

#: The bytes that a task reads: at least, if there are any, and about at most.
LEAST, MOST = 1 << 20, 32 << 20
#: The largest number of slices: positions of rows that DataFrame code makes count tasks up to 4096.
_MOST_SLICES: Final = 4000


@dataclass(frozen=True, repr=False)
class FileRange:
    """A file, or a part of it: from a byte on, up to another one or the end.

    `by_number`: the positions of its rows are their numbers, not their first bytes. Such a file is not cut.
    """

    path: str
    start: int = 0
    end: int | None = None
    by_number: bool = False

    @property
    def is_whole(self) -> bool:
        """Whether this is all of the file."""
        return self.start == 0 and self.end is None

    def __repr__(self) -> str:
        bounds = [] if self.is_whole else [self.start] if self.end is None else [self.start, self.end]
        shown = [*map(repr, (self.path, *bounds)), *(["by_number=True"] if self.by_number else [])]
        return f"FileRange({', '.join(shown)})"


Slices = tuple[tuple[FileRange, ...], ...]


def slice_count(size: int, cores: int, most: int = MOST) -> int:
    """The number of slices for a number of bytes: the same for each core, none of them tiny or large."""
    least = min(LEAST, most)
    if size <= least * cores:
        return max(1, -(-size // least))
    rounds = -(-size // (most * cores))
    return min(cores * rounds, _MOST_SLICES)


def cut(files: Sequence[FileRange], sizes: Sequence[int], slices: int) -> Slices:
    """Whole files in this order, in slices of about the same number of bytes. Files by number are not cut."""
    size = max(1, -(-sum(sizes) // slices))
    parts: list[list[FileRange]] = [[]]
    room = size
    for file, length in zip(files, sizes, strict=True):
        start, rest = 0, length
        if file.by_number and parts[-1] and rest > 2 * room:
            parts.append([])
            room = size
        while not file.by_number and rest > room:
            if room:
                parts[-1].append(FileRange(file.path, start, start + room))
                start, rest = start + room, rest - room
            parts.append([])
            room = size
        parts[-1].append(file if start == 0 else FileRange(file.path, start))
        room = max(room - rest, 0)
        if room == 0 and file.by_number:
            parts.append([])
            room = size
    return tuple(tuple(part) for part in parts if part)
