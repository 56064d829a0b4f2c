"""Positions of rows in files: those of one epoch are divided among its files, in the order of the files.

A file's share follows its size, so neither the number of files nor the length of one of them is limited. Shares
depend on the files only, not on the tasks that read them.

>>> shares(["a", "b"], [6 * 4096, 0], range(0, 800))
{'a': range(0, 700), 'b': range(700, 800)}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Final

import polars as pl

from penstock.errors import PenstockError
from penstock.sources.base import PATH, ROW
from penstock.sources.files.listed import plain_path

#: The bytes that an empty file counts as: a small compressed file may hold many rows.
_LEAST: Final = 4096


def shares(paths: Sequence[str], sizes: Sequence[int], space: range) -> dict[str, range]:
    """The positions of each file's rows, in the order of the paths."""
    weights = [size + _LEAST for size in sizes]
    total, parts = sum(weights), accumulate(weights, initial=0)
    bounds = [space.start + len(space) * part // total for part in parts] if total else []
    return {path: range(*bounds[number : number + 2]) for number, path in enumerate(paths)}


def in_files(rows: pl.DataFrame, positions: Mapping[str, range]) -> pl.DataFrame:
    """Rows with `PATH` and `ROW`, with their `__offset` instead."""
    last = rows.group_by(PATH).agg(pl.col(ROW).max())
    files = {path: positions_of(path, positions) for path in last[PATH]}
    for path, row in last.iter_rows():
        if row >= len(files[path]):
            raise PenstockError(
                f"the file '{plain_path(path)}' has more than {len(files[path])} rows, too many for one epoch",
                hint="split the file, or let epochs take fewer files: files_per_epoch",
            )
    if len(files) == 1:
        ((_, only),) = files.items()
        start = pl.lit(only.start, pl.Int64)
    else:
        start = pl.col(PATH).replace_strict({path: own.start for path, own in files.items()}, return_dtype=pl.Int64)
    return rows.with_columns((start + pl.col(ROW)).alias("__offset")).drop(PATH, ROW)


def positions_of(path: str, positions: Mapping[str, range]) -> range:
    """The positions of a file, by its path as Spark or the file system writes it."""
    own = positions.get(path) or positions.get(plain_path(path))
    if own is None:
        raise PenstockError(f"the file '{path}' is not among those that the epoch lists")
    return own
