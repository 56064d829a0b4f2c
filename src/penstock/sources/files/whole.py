"""A file counts as a whole or not at all: damage is noticed before the first of its rows is handed on.

A damaged file is one dead letter, with its path. So an epoch that is done again gives the same, and the file can be fed
in again as a whole when it was repaired.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, TypeVar

import polars as pl
import pyarrow as pa

from penstock.errors import PenstockError
from penstock.sources.base import EXTENT, FILE, MALFORMED, REASON

#: Why the system does not let a file be read, where that is the file's own fault.
_OF_THE_FILE: Final = (errno.ENOENT, errno.EACCES, errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG)
_LONGEST: Final = 300
Frame = TypeVar("Frame", pl.DataFrame, pa.Table)


def whole(
    path: str, frames: Iterator[Frame], verify: Callable[[], None], most: int = 64 << 20
) -> Iterator[Frame | pl.DataFrame]:
    """The rows of a file, or one row that says that it cannot be read.

    Up to `most` bytes of rows are held until the file was read to its end. A larger one is read to its end first.
    """
    held: list[Frame] = []
    size = 0
    try:
        for frame in frames:
            held.append(frame)
            size += frame.nbytes if isinstance(frame, pa.Table) else int(frame.estimated_size())
            if size > most:
                verify()
                break
    except (pa.ArrowException, OSError, EOFError, ValueError, PenstockError) as error:
        yield _dead(path, error)
        return
    yield from held
    yield from frames


def _dead(path: str, error: Exception) -> pl.DataFrame:
    """A row that stands for a file; raises again what is not a fault of the file."""
    if isinstance(error, OSError) and error.errno is not None:
        if error.errno not in _OF_THE_FILE:
            raise error
        if error.errno == errno.ENOENT and not Path(path).parent.is_dir():
            raise PenstockError(
                f"the directory '{Path(path).parent}' does not exist, or this worker does not see it",
                hint="on a cluster every worker must see the files under the same path",
            ) from error
        reason = "it does not exist" if error.errno == errno.ENOENT else str(error.strerror)
    else:
        reason = error.message if isinstance(error, PenstockError) else str(error)
    reason = f"the file cannot be read, and none of its rows count: {' '.join(reason.split())[:_LONGEST]}"
    return pl.DataFrame({MALFORMED: [path], REASON: [reason], EXTENT: [FILE]})
