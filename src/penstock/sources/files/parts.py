"""The rows of files and of parts of files, each with its file and its position there.

A file that cannot be read as a whole is a dead letter. A part cannot tell: other parts may have been read. So a part
that fails makes its epoch read the same files again, as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import polars as pl

from penstock.errors import PenstockError
from penstock.sources.base import PATH, ROW
from penstock.sources.files.ranges import FileRange
from penstock.sources.files.whole import whole
from penstock.sources.formats.lines import AT

#: How the names of files end that Arrow takes for compressed.
COMPRESSED: Final = (".gz", ".bz2", ".lz4", ".zst", ".br")
_FAILED: Final = "cannot be read in parts"


def rows_of(
    part: FileRange, frames: Iterator[pl.DataFrame], verify: Callable[[], None] | None = None
) -> Iterator[pl.DataFrame]:
    """The rows of a file or a part, with `PATH` and `ROW`. `verify` reads a file that may be damaged to its end."""
    count = 0
    for frame in whole(part.path, frames, verify or _is_sound) if part.is_whole else _of_part(part, frames):
        assert isinstance(frame, pl.DataFrame)
        if AT in frame.columns and not is_numbered(part):
            position = pl.col(AT).alias(ROW)
        else:
            position = pl.int_range(count, count + frame.height, dtype=pl.Int64).alias(ROW)
        yield frame.with_columns(pl.lit(part.path).alias(PATH), position).drop(AT, strict=False)
        count += frame.height


def is_numbered(part: FileRange) -> bool:
    """Whether the positions of a file's rows are their numbers: bytes of a compressed file do not tell them."""
    return part.by_number or part.path.endswith(COMPRESSED)


def has_failed(error: BaseException) -> bool:
    """Whether an epoch failed because of a part of a file."""
    return _FAILED in str(error)


def _of_part(part: FileRange, frames: Iterator[pl.DataFrame]) -> Iterator[pl.DataFrame]:
    try:
        yield from frames
    except (OSError, PenstockError) as error:
        raise PenstockError(f"the file '{part.path}' {_FAILED}: {error}") from error


def _is_sound() -> None:
    """Nothing of plain text is damaged."""
