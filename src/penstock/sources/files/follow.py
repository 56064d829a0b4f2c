"""What goes along with a source of files on the driver: which files an epoch reads, in which order, and their bytes."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import ClassVar

import pyarrow as pa

from penstock.model.types import Schema
from penstock.sources.base import Folder, Follower
from penstock.sources.files.listed import listed_between
from penstock.sources.files.positions import shares

#: The rows of files for these columns, by their paths and bytes in all, if these are within a limit.
SmallPaths = Callable[[Collection[str], int | None, Schema, int], pa.Table | None]


class FilesFollower(Follower):
    """Looks up the files of an epoch in Spark's list of those that it has read."""

    reads_small: ClassVar[bool] = True

    def __init__(self, entries: Folder, read_small: SmallPaths, *, is_local: bool) -> None:
        self._entries, self._read_small, self._is_local = entries, read_small, is_local

    def positions(self, before: str | None, offsets: str, space: range) -> Mapping[str, range]:
        paths = listed_between(self._entries, -1 if before is None else _entry(before), _entry(offsets))
        sizes = [size(path) for path in paths] if self._is_local else [0] * len(paths)
        self.epoch_size = sum(sizes) if self._is_local else None
        return shares(paths, sizes, space)

    def small_epoch(
        self, before: str | None, offsets: str, positions: Mapping[str, range] | None, schema: Schema, most: int
    ) -> pa.Table | None:
        return None if positions is None else self._read_small(positions, self.epoch_size, schema, most)


def size(path: str) -> int:
    """The bytes of a file; 0 if it does not exist, which the task that reads it reports."""
    try:
        return Path(path).stat().st_size
    except OSError:
        return 0


def _entry(offsets: str) -> int:
    return int(json.loads(offsets)["logOffset"])
