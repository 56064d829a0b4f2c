"""The lines of a file or of a body, as text. One that is too long or not UTF-8 is a dead letter, with the reason.

>>> texts(b"one\\ntwo \\xff\\n", max_line=100).rows()
[('one', None), ('two \\\\xff', 'the line is not UTF-8')]
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO, Any, Final

import polars as pl
import pyarrow as pa

from penstock.sources.base import REASON

#: The column with a line's text.
LINE: Final = "__line"
#: Longer lines are dead letters, if nobody says otherwise: so many bytes.
MAX_LINE: Final = 16 << 20
#: So much of a line that is too long is kept.
SHOWN: Final = 1000
#: How many bytes of a file are taken at a time, after decompression.
BLOCK: Final = 24 << 20
_BOM: Final = b"\xef\xbb\xbf"
_FORM: Final = {LINE: pl.String(), REASON: pl.String()}


def read_lines(path: str, max_line: int = MAX_LINE, block: int = BLOCK) -> Iterator[pl.DataFrame]:
    """All lines of a file, which may be compressed, some at a time: `LINE`, and `REASON` where one is a dead letter.

    Memory is bounded by a block and a line, however much a compressed file unpacks to.
    """
    with pa.input_stream(path, compression="detect") as file:
        for whole, length in _blocks(file, max_line, block):
            yield texts(whole, max_line) if length is None else _form([(_shown(whole), _too_long(length, max_line))])


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
    return _form([_line(line.removesuffix(b"\r"), max_line) for line in whole.removesuffix(b"\n").split(b"\n")])


def _split(text: str) -> pl.DataFrame:
    lines = pl.Series(LINE, [text.removesuffix("\n")]).str.split("\n").explode(empty_as_null=True)
    return lines.str.strip_suffix("\r").to_frame().with_columns(pl.lit(None, pl.String).alias(REASON))


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


def _form(rows: list[tuple[str, str | None]]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=_FORM, orient="row")


def _blocks(file: IO[bytes] | Any, max_line: int, size: int) -> Iterator[tuple[bytes, int | None]]:
    """Some whole lines at a time; of a line that does not fit into memory its beginning, with its length."""
    rest, skipped, first = b"", 0, True
    while block := file.read(size):
        if first:
            block, first = block.removeprefix(_BOM), False
        if skipped:
            end = block.find(b"\n")
            if end < 0:
                skipped += len(block)
                continue
            yield rest, skipped + end
            rest, skipped, block = b"", 0, block[end + 1 :]
        whole, end_of_line, rest = (rest + block).rpartition(b"\n")
        if end_of_line:
            yield whole, None
        if len(rest) > max_line:
            rest, skipped = rest[:SHOWN], len(rest)
    if skipped:
        yield rest, skipped
    elif rest:
        yield rest, None
