"""Panes in files: blocks follow each other in the order of keys, whatever task wrote them."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.state.pane_file import (
    PaneFileError,
    check_pane_file,
    filed,
    is_reference,
    read_block,
    reference,
    write_panes,
)
from tests.strategies import cases

KEYS = ["k:tag", "k:n"]
rows = st.lists(
    st.tuples(st.none() | st.text("aé\0Z", max_size=3), st.none() | st.floats(width=32), st.integers(0, 3)), max_size=60
)


def panes(values: list[tuple[str | None, float | None, int]]) -> pl.DataFrame:
    """Panes of these keys, each so many times more."""
    many = [(tag, n, time) for tag, n, times in values for time in range(1 + times)]
    schema = {"k:tag": pl.String, "k:n": pl.Float64, "v:time": pl.Int64}
    return pl.DataFrame(many, schema, orient="row").unique(maintain_order=True).sort(KEYS, maintain_order=True)


@cases(100)
@given(values=rows, tasks=st.integers(1, 4), largest=st.integers(1, 30), stride=st.integers(1, 9))
def test_blocks_have_all_panes_in_the_order_of_keys(tmp_path_factory, values, tasks, largest, stride):
    root = str(tmp_path_factory.mktemp("panes"))
    whole = panes(values)
    task = pl.struct(KEYS).hash(7) % tasks
    parts = [whole.filter(task == number) for number in range(tasks)]
    files = [write_panes(root, str(number), part) for number, part in enumerate(parts)]
    blocks = filed(root, files, KEYS, largest, stride)
    read = [read_block(root, reference(block), "k:") for block in blocks.blocks]
    assert all(block.height for block in read)
    # The panes of a key keep their order. Keys that are equal in the order, as NaNs are, are one key.
    assert pl.concat([whole.clear(), *read]).equals(whole)
    if largest >= stride * (tasks + 1):
        assert all(block.height <= largest for block in read)


def test_a_reference_is_told_from_panes():
    assert is_reference(reference(()))
    assert not is_reference(b"\xff\xff\xff\xff")
    assert json.loads(reference(())) == {"slices": []}


def test_a_file_that_is_missing_or_cut_off_is_refused_by_its_name(tmp_path: Path):
    root = str(tmp_path)
    file = write_panes(root, "7-a.0", panes([("a", 1.0, 2)]))
    check_pane_file(root, file)
    path = tmp_path / file.path
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(PaneFileError, match="cannot be read") as error:
        check_pane_file(root, file)
    assert str(path) in str(error.value)
    with pytest.raises(PaneFileError):
        read_block(root, reference(filed(root, [file], KEYS, 10).blocks[0]), "k:")
    path.unlink()
    with pytest.raises(PaneFileError, match="missing"):
        check_pane_file(root, file)
