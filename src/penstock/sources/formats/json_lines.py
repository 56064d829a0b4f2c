"""Lines of JSON as columns, inside Spark's tasks: one object a line, by name and type of the stream's columns.

What each value becomes is what Spark's own JSON reader makes of it (tested on edge values), several times faster.
Lines are read in pieces. Where all lines of a piece are plain, Arrow parses them (`json_plain`). Those of other pieces
get a closer look (`json_closely`). A line that does not fit is malformed as a whole.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from penstock.kernel.expressions import is_of_kernel
from penstock.model.types import Schema, has_structs
from penstock.sources.base import EXTENT, MALFORMED, PART, REASON
from penstock.sources.formats.json_closely import closely
from penstock.sources.formats.json_plain import frame_of, plain_rows, plain_table, takes
from penstock.sources.formats.lines import AT, BLOCK, LINE, Block, lines_of, read_blocks

#: The bytes that are taken for plain lines at a time, and those that get a closer look.
PIECE, LARGE_PIECE = 1 << 20, 16 << 20
#: The bytes that are read at a time, few enough to stay in the processor's cache until they are parsed.
READ: Final = 1 << 20
_NAME: Final = re.compile(r"\w+", re.ASCII)
_NEWLINE: Final = ord("\n")
_NO_TEXT: Final = pl.Series([None], dtype=pl.String)


def reads(schema: Schema) -> bool:
    """Whether all columns have types and names that are read here."""
    own = (is_of_kernel(kind) and not has_structs(kind) and _NAME.fullmatch(name) for name, kind in schema)
    return len(schema.names) > 0 and all(own)


def decoded(lines: pl.Series, schema: Schema, *, blank: bool = False, reasons: pl.Series | None = None) -> pl.DataFrame:
    """The columns of the schema, `MALFORMED`: the text of lines that do not fit, and `REASON`, where it is known.

    Blank lines are left out; with `blank` they stay, and do not fit. Lines that have a reason already do not fit: they
    are not whole (`EXTENT`).
    """
    if reasons is not None and reasons.null_count() < len(reasons):
        shown = lines.str.strip_chars() != "" if not blank else pl.repeat(True, len(lines), eager=True)
        lines, reasons = lines.filter(shown), reasons.filter(shown)
        has_reason = reasons.is_not_null()
        rows = decoded(lines, schema, blank=True)
        return rows.with_columns(
            lines.zip_with(has_reason, rows[MALFORMED]).alias(MALFORMED),
            reasons.zip_with(has_reason, rows[REASON]).alias(REASON),
            pl.when(has_reason).then(pl.lit(PART)).alias(EXTENT),
        )
    attempts, start = _Attempts(schema), 0
    frames: list[pl.DataFrame] = []
    width = max(1, int(lines.str.len_bytes().mean() or 0))  # type: ignore[arg-type]
    while start < len(lines) or not frames:
        piece = lines.slice(start, max(1, attempts.size // width))
        start += max(1, len(piece))
        rows_of_piece = _plain(piece, schema) if attempts.is_due else None
        attempts.note(worked=rows_of_piece is not None)
        frames.append(closely(piece, schema, blank) if rows_of_piece is None else rows_of_piece)
    return pl.concat(frames)


def read_file(
    path: str, schema: Schema, max_line: int, start: int = 0, end: int | None = None
) -> Iterator[pl.DataFrame]:
    """The same for the lines of a file, or of a part of it, some at a time, with `AT`: see `read_blocks`."""
    attempts, size = _Attempts(schema), 0
    pieces: list[_Plain | pl.DataFrame] = []
    for block in read_blocks(path, max_line, READ, start, end):
        pieces += _of_block(block, schema, max_line, attempts)
        size += len(block.text)
        if size >= BLOCK:
            yield _together(pieces, schema)
            pieces, size = [], 0
    if pieces:
        yield _together(pieces, schema)


class _Plain(NamedTuple):
    """Plain lines as Arrow's columns, and where each begins."""

    table: pa.Table
    begins: npt.NDArray[np.int64]


class _Attempts:
    """Whether lines are taken for plain ones, and how many at a time. After some failures in a row few are."""

    def __init__(self, schema: Schema) -> None:
        self._takes, self._failures = takes(schema), 0

    @property
    def is_due(self) -> bool:
        return self._takes and (self._failures < 3 or self._failures % 2 == 0)

    @property
    def size(self) -> int:
        return PIECE if self.is_due else LARGE_PIECE

    def note(self, *, worked: bool) -> None:
        self._failures = 0 if worked else self._failures + 1


def _of_block(block: Block, schema: Schema, max_line: int, attempts: _Attempts) -> list[_Plain | pl.DataFrame]:
    """The lines of a block that are not blank, with `AT`, piece by piece."""
    if block.length is not None:
        return [_closely(block, schema, max_line)]
    start = 0
    pieces: list[_Plain | pl.DataFrame] = []
    while start < len(block.text) or not pieces:
        is_last = len(block.text) - start <= attempts.size * 5 // 4  # a few lines are no piece of their own
        end = -1 if is_last else block.text.find(b"\n", start + attempts.size)
        end = len(block.text) if end < 0 else end
        piece = Block(block.text[start:end], block.at + start)
        start = end + 1
        rows = _plain_block(piece, schema, max_line) if attempts.is_due else None
        attempts.note(worked=rows is not None)
        pieces.append(_closely(piece, schema, max_line) if rows is None else rows)
    return pieces


def _closely(block: Block, schema: Schema, max_line: int) -> pl.DataFrame:
    lines = lines_of(block, max_line)
    lines = lines.filter(pl.col(LINE).str.strip_chars() != "")
    if lines[REASON].null_count() < lines.height:
        return decoded(lines[LINE], schema, blank=True, reasons=lines[REASON]).with_columns(lines[AT])
    return closely(lines[LINE], schema, blank=True).with_columns(lines[AT])


def _plain_block(block: Block, schema: Schema, max_line: int) -> _Plain | None:
    """The lines of a block, if all of them are plain."""
    ends = np.flatnonzero(np.frombuffer(block.text, np.uint8) == _NEWLINE)
    begins = np.concatenate(([0], ends + 1))
    if len(block.text) > max_line and np.diff(begins, append=len(block.text) + 1).max() - 1 > max_line:
        return None  # the end of a line counts as a part of it here: what is nearly too long gets a closer look
    table = plain_table(block.text, ends, schema)
    return None if table is None else _Plain(table, begins + block.at)


def _together(pieces: list[_Plain | pl.DataFrame], schema: Schema) -> pl.DataFrame:
    """Pieces as one frame. Plain ones that follow each other are converted at once."""
    frames: list[pl.DataFrame] = []
    for is_plain, some in groupby(pieces, key=lambda piece: isinstance(piece, _Plain)):
        if is_plain:
            tables, begins = zip(*some, strict=True)
            rows = _faultless(frame_of(pa.concat_tables(tables), schema))
            frames.append(rows.hstack([pl.Series(AT, np.concatenate(begins), dtype=pl.Int64)]))
        else:
            frames += some  # type: ignore[arg-type]
    return frames[0] if len(frames) == 1 else pl.concat(frames, how="diagonal")


def _plain(lines: pl.Series, schema: Schema) -> pl.DataFrame | None:
    """The same for lines that are texts already."""
    if not len(lines):
        return None
    rows = plain_rows(str(lines.str.join("\n").item()).encode(), len(lines), schema)
    return None if rows is None else _faultless(rows)


def _faultless(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.hstack([_NO_TEXT.new_from_index(0, rows.height).alias(name) for name in (MALFORMED, REASON)])
