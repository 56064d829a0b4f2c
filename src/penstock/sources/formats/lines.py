"""The lines of a file or of a body, as text. One that is too long or not UTF-8 is a dead letter, with the reason.

A line has a position: the byte at which it begins. Of a file, a part can be read: the lines that begin in it. So parts
that follow each other give every line once, wherever they are cut.

>>> texts(b"one\\ntwo \\xff\\n", max_line=100).rows()
[('one', None, 0), ('two \\\\xff', 'the line is not UTF-8', 4)]
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import IO, Any, Final

import polars as pl
import pyarrow as pa

from penstock.sources.base import REASON

#: The columns with a line's text, and with the byte at which it begins.
LINE: Final = "__line"
AT: Final = "__line_at"
#: Lines with more bytes are dead letters, if nobody says otherwise.
MAX_LINE: Final = 16 << 20
#: The bytes that are kept of a line that is too long.
SHOWN: Final = 1000
#: How many bytes of a file are taken at a time, after decompression.
BLOCK: Final = 24 << 20
#: How many bytes are taken at a time where the end of one line is looked for.
_STEP: Final = 256 << 10
_BOM: Final = b"\xef\xbb\xbf"
_FORM: Final = {LINE: pl.String(), REASON: pl.String(), AT: pl.Int64()}


@dataclass(frozen=True)
class Block:
    """Some whole lines, without the end of the last one, and where they begin in the file.

    With a `length` it is the beginning of one line, which is too long.
    """

    text: bytes
    at: int
    length: int | None = None


def read_lines(
    path: str, max_line: int = MAX_LINE, block: int = BLOCK, start: int = 0, end: int | None = None
) -> Iterator[pl.DataFrame]:
    """The lines of a file, some at a time: `LINE`, `AT`, and `REASON` where one is a dead letter."""
    for some in read_blocks(path, max_line, block, start, end):
        yield lines_of(some, max_line)


def read_blocks(
    path: str, max_line: int = MAX_LINE, block: int = BLOCK, start: int = 0, end: int | None = None
) -> Iterator[Block]:
    """The lines of a file, some at a time: all, or those that begin at a byte from `start` on and before `end`.

    All of a file may be read compressed. Memory is bounded by a block and a line, however much it unpacks to.
    """
    if start == 0 and end is None:
        with pa.input_stream(path, compression="detect") as file:
            yield from _blocks(file, 0, None, max_line, block)
        return
    # A byte order mark stays with the line after it: the first four bytes are not parted.
    start, end = max(start, 4) if start else 0, end if end is None else max(end, 4)
    with open(path, "rb", buffering=0) as file:
        begin = start if start == 0 else _line_after(file, start, end)
        if begin is not None:
            file.seek(begin)
            yield from _blocks(file, begin, end, max_line, block)


def lines_of(block: Block, max_line: int) -> pl.DataFrame:
    """The lines of a block, as columns."""
    if block.length is not None:
        return _form([(_shown(block.text), _too_long(block.length, max_line), block.at)])
    lines = texts(block.text, max_line)
    return lines.with_columns(pl.col(AT) + block.at) if block.at else lines


def verify(path: str) -> None:
    """Reads a compressed file to its end; raises what is wrong with it."""
    with pa.input_stream(path, compression="detect") as file:
        while file.read(BLOCK):
            pass


def texts(whole: bytes, max_line: int) -> pl.DataFrame:
    """The lines of a text, without their ends."""
    try:
        text = whole.decode("utf-8")
    except UnicodeDecodeError:
        text = ""
    if len(whole) <= max_line and (text or not whole):
        return _split(text)
    if text:
        lines = _split(text)
        if (lines[LINE].str.len_bytes() <= max_line).all():
            return lines
    pieces = whole.removesuffix(b"\n").split(b"\n")
    begins = accumulate((len(piece) + 1 for piece in pieces), initial=0)
    return _form([(*_line(piece.removesuffix(b"\r"), max_line), at) for piece, at in zip(pieces, begins, strict=False)])


def _split(text: str) -> pl.DataFrame:
    lines = pl.Series(LINE, [text.removesuffix("\n")]).str.split("\n").explode(empty_as_null=True)
    sizes = lines.str.len_bytes().cast(pl.Int64) + 1
    return pl.DataFrame(
        [
            lines.str.strip_suffix("\r"),
            pl.Series(REASON, [None], dtype=pl.String).new_from_index(0, len(lines)),
            (sizes.cum_sum() - sizes).alias(AT),
        ]
    )


def _line(line: bytes, max_line: int) -> tuple[str, str | None]:
    if len(line) > max_line:
        return _shown(line), _too_long(len(line), max_line)
    try:
        return line.decode("utf-8"), None
    except UnicodeDecodeError:
        return _shown(line), "the line is not UTF-8"  # where, its text shows; so that all of them have one reason


def _shown(line: bytes) -> str:
    """What is kept of such a line; bytes that are not UTF-8 are written as \\xff."""
    return line[:SHOWN].decode("utf-8", "backslashreplace")


def _too_long(length: int, max_line: int) -> str:
    return f"the line has {length} bytes, more than max_line = {max_line}"


def _form(rows: list[tuple[str, str | None, int]]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=_FORM, orient="row")


def _long(shown: bytes, at: int, length: int, last: bytes) -> Block:
    """The beginning of a line that is too long, without the end of the line."""
    length -= last == b"\r"
    return Block(shown[:length], at, length)


def _line_after(file: IO[bytes], start: int, end: int | None) -> int | None:
    """Where the first line begins from a byte on; None if none does before the end."""
    at = start - 1
    file.seek(at)
    while end is None or at < end - 1:
        block = file.read(_STEP)
        if not block:
            return None
        newline = block.find(b"\n")
        if newline >= 0:
            at += newline + 1
            return at if end is None or at < end else None
        at += len(block)
    return None


def _blocks(file: IO[bytes] | Any, at: int, end: int | None, max_line: int, size: int) -> Iterator[Block]:
    """The lines from where the file stands, up to the last one that begins before `end`.

    Of a line that does not fit into memory there is its beginning, with its length.
    """
    first, begin, last = at == 0, at, b""
    rest, skipped = b"", 0  # `rest` ends at `at`, unless bytes of a long line are skipped
    while skipped or end is None or at - len(rest) < end:
        is_past = end is not None and at >= end  # then only the end of a line is wanted
        block = file.read(_STEP if is_past else size if end is None else min(size, end - at))
        if not block:
            break
        if is_past:
            newline = block.find(b"\n")
            block = block[: newline + 1] if newline >= 0 else block
        at += len(block)
        if first:
            block, first = block.removeprefix(_BOM), False
        if skipped:
            line, newline, block = block.partition(b"\n")
            rest, skipped, last = (rest + line[:SHOWN])[:SHOWN], skipped + len(line), line[-1:] or last
            if not newline:
                continue
            yield _long(rest, begin, skipped, last)
            rest, skipped = b"", 0
        begin = at - len(block) - len(rest)
        whole, newlines, rest = (rest + block).rpartition(b"\n")
        if newlines:
            yield Block(whole, begin)
        if len(rest) > max_line + 1:  # one more than a line may have: it may be a part of the line's end
            begin = at - len(rest)
            rest, skipped, last = rest[:SHOWN], len(rest), rest[-1:]
    if skipped:
        yield _long(rest, begin, skipped, last)
    elif rest:
        yield Block(rest, at - len(rest))
