"""A file that is read in parts, cut anywhere, gives the same rows at the same positions as the whole file."""

from __future__ import annotations

import gzip
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.errors import PenstockError
from penstock.model.types import Schema
from penstock.sources import Files
from penstock.sources.base import EXTENT, MALFORMED, PATH, REASON, ROW, SLICE
from penstock.sources.files.positions import shares
from penstock.sources.files.ranges import LEAST, MOST, FileRange, cut, slice_count
from penstock.sources.files.text import FileLines
from penstock.sources.formats.lines import LINE, read_lines

SCHEMA = Schema.parse("k string, v bigint")
COLUMNS = ("k", "v", MALFORMED, REASON, EXTENT, ROW)

line = st.sampled_from(
    [
        b'{"k": "a", "v": 1}', b'{"v": 2}', b"{}", b"", b"  ", b"\t", b"nonsense", b'{"k": "\xff"}', b"\xff\xfe",
        '{"k": "größer", "v": 3}'.encode(), b'{"k": "' + b"x" * 60 + b'"}', b"y" * 80, b"z" * 2000, b'{"v": 1}{"v": 2}',
        b'{"k": "' + b"x" * 61 + b'"}', b'{"k": "' + b"x" * 62 + b'"}', b'{"k": [', b"{}]}", b'{"v": 1, "v": 2}',
        b'{"k": "a\\nb"}', b"\xef\xbb\xbf",
    ]
)  # fmt: skip
text = st.builds(
    lambda mark, lines, end, last: mark + end.join(lines) + (end if last else b""),
    st.sampled_from([b"", b"", b"\xef\xbb\xbf"]),
    st.lists(line, max_size=8),
    st.sampled_from([b"\n", b"\r\n"]),
    st.booleans(),
)
cuts = st.lists(st.integers(1, 400), max_size=6).map(lambda points: sorted(set(points)))


def parts_of(path: Path, points: list[int]) -> list[FileRange]:
    """The file, cut at these bytes."""
    bounds = [0, *points, None]
    return [FileRange(str(path), start or 0, end) for start, end in pairwise(bounds)]


def rows(frames: Any, columns: tuple[str, ...] = COLUMNS) -> list[tuple[object, ...]]:
    found = [
        frame.with_columns(pl.lit(None, pl.String).alias(name) for name in columns if name not in frame.columns)
        for frame in frames
    ]
    return [row for frame in found for row in frame.select(columns).rows()]


@given(text, cuts)
@settings(deadline=None, max_examples=150)
def test_json_cut_anywhere_gives_the_same_rows_at_the_same_positions(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, points: list[int]
):
    path = tmp_path_factory.getbasetemp() / "parts.json"
    path.write_bytes(content)
    log = Files(str(path.parent), max_line=70)
    whole = rows(log.frames(pl.DataFrame({PATH: [str(path)]}), SCHEMA))
    assert rows(log.part_frames(parts_of(path, points), SCHEMA)) == whole
    assert [row[-1] for row in whole] == sorted({row[-1] for row in whole}), "positions rise"
    assert all(content[row[-1] : row[-1] + 1] not in (b"", b"\n") for row in whole), "a position is a line's first byte"


@given(text, cuts, st.booleans())
@settings(deadline=None, max_examples=150)
def test_csv_cut_anywhere_gives_the_same_lines_and_leaves_out_one_header(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, points: list[int], header: bool
):
    path = tmp_path_factory.getbasetemp() / "parts.csv"
    path.write_bytes(content)
    columns = (LINE, REASON, EXTENT, PATH, ROW)

    def sent(lines: FileLines, batch: dict[str, list[Any]]) -> list[tuple[object, ...]]:
        frames = [pl.from_arrow(pa.Table.from_batches([one])) for one in lines([pa.RecordBatch.from_pydict(batch)])]
        return rows(frames, columns)

    whole = sent(FileLines("csv", header, 70), {PATH: [str(path)]})
    slices = tuple((part,) for part in parts_of(path, points))
    assert sent(FileLines("csv", header, 70, slices), {SLICE: list(range(len(slices)))}) == whole
    every = sent(FileLines("csv", False, 70), {PATH: [str(path)]})
    assert whole == every[1 if header else 0 :]


@given(text, cuts, st.integers(1, 9))
@settings(deadline=None, max_examples=100)
def test_blocks_of_any_size_give_the_same_lines(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, points: list[int], block: int
):
    path = tmp_path_factory.getbasetemp() / "blocks.json"
    path.write_bytes(content)

    def lines(part: FileRange, size: int) -> list[tuple[object, ...]]:
        some = rows(read_lines(part.path, 70, size, part.start, part.end), (LINE, REASON, "__line_at"))
        return [row for row in some if str(row[0]).strip()]

    for part in parts_of(path, points):
        assert lines(part, 1 << 20) == lines(part, block + 3), part


@given(st.lists(st.tuples(st.integers(0, 100), st.booleans()), min_size=1, max_size=12), st.integers(1, 9))
def test_slices_have_every_byte_once_in_the_order_of_the_files(files: list[tuple[int, bool]], count: int):
    ranges = [FileRange(f"f{number:02}", by_number=numbered) for number, (_, numbered) in enumerate(files)]
    parts = [part for some in cut(ranges, [size for size, _ in files], count) for part in some]
    assert list(dict.fromkeys(part.path for part in parts)) == [file.path for file in ranges]
    for file in ranges:
        own = [part for part in parts if part.path == file.path]
        assert own[0].start == 0
        assert own[-1].end is None
        assert all(one.end == other.start for one, other in pairwise(own))
        assert not file.by_number or own == [file]


def test_slices_follow_cores_and_are_neither_tiny_nor_large():
    assert [slice_count(size, 2) for size in (0, 1, LEAST + 1, 4 * LEAST, 2 * MOST, 2 * MOST + 1)] == [1, 1, 2, 2, 2, 4]


def test_compressed_files_and_files_with_more_bytes_than_positions_are_not_cut(tmp_path: Path):
    packed, plain = tmp_path / "a.json.gz", tmp_path / "b.json"
    packed.write_bytes(gzip.compress(b'{"v": 1}\n' * 1000))
    plain.write_bytes(b'{"v": 1}\n' * (LEAST // 4))
    log, paths = ps.files(tmp_path), [str(packed), str(plain)]
    slices = log.cut(log.positions(paths, range(1 << 38)), cores=2)
    assert slices is not None
    parts = [part for some in slices for part in some]
    assert [part.by_number for part in parts if part.path == str(packed)] == [True]
    assert len([part for part in parts if part.path == str(plain)]) > 1
    (few,) = log.cut(shares(paths, [0, 0], range(100)), cores=1) or ()
    assert few == (FileRange(str(packed), by_number=True), FileRange(str(plain), by_number=True))
    numbered = rows(log.part_frames(few, SCHEMA), (PATH, ROW))
    assert [row for path, row in numbered if path == str(packed)] == list(range(1000))


def test_a_part_that_cannot_be_read_is_no_dead_letter(tmp_path: Path):
    log = ps.files(tmp_path)
    with pytest.raises(PenstockError, match="cannot be read in parts") as failure:
        list(log.part_frames([FileRange(str(tmp_path / "gone.json"), 0, 10)], SCHEMA))
    assert log.failed_in_part(failure.value)
