"""The rows that a step gives: few stay in memory, many go to a file and come back in order, chunk by chunk."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from penstock.state.step_output import OutputWriter, StepOutput, merged
from tests.strategies import cases

REPOSITORY = Path(__file__).parents[2]


def frame(numbers: list[int | None]) -> pl.DataFrame:
    return pl.DataFrame({"n": pl.Series(numbers, dtype=pl.Int64), "text": [f"row {n}" for n in numbers]})


def written(root: Path, parts: list[list[int | None]], many: int) -> StepOutput:
    with OutputWriter(str(root), "w.0", many=many) as output:
        for part in parts[:-1]:
            output.add(frame(part))
        return output.close(frame(parts[-1]), ["n"])


def test_few_rows_stay_in_memory(tmp_path):
    output = written(tmp_path, [[1, 2], [3]], many=3)
    assert (output.files, output.frame["n"].to_list(), list(tmp_path.iterdir())) == ((), [1, 2, 3], [])


def test_many_rows_go_to_a_file_and_come_back_in_chunks(tmp_path):
    output = written(tmp_path, [[1, 2, 3, 4], [5], [6, 7]], many=3)
    assert [file.rows for file in output.files] == [7]
    assert [chunk["n"].to_list() for chunk in output.chunks()] == [[1, 2, 3], [4], [5], [6, 7]]
    assert pl.concat(output.chunks()).equals(frame([1, 2, 3, 4, 5, 6, 7]))


def test_an_output_without_rows_is_one_empty_chunk(tmp_path):
    assert [chunk.height for chunk in written(tmp_path, [[]], many=3).chunks()] == [0]


def test_outputs_of_several_processes_are_read_in_one_order(tmp_path):
    one, other = written(tmp_path, [[1, 4, 6], [8, None]], many=2), written(tmp_path, [[2, 3], [5, 7]], many=2)
    both = StepOutput(frame([0, 9]), (*one.files, *other.files), str(tmp_path), ("n",))
    assert both.count == 11
    assert pl.concat(both.chunks())["n"].to_list() == [*range(10), None]


@cases(200)
@given(st.lists(st.lists(st.lists(st.one_of(st.none(), st.integers(0, 20)), max_size=5), max_size=4), max_size=4))
def test_sorted_streams_are_merged_in_order(parts):
    streams = []
    for chunks in parts:
        rows = sorted((n for chunk in chunks for n in chunk), key=lambda n: (n is None, n))
        cut = [rows[i : i + 2] for i in range(0, len(rows), 2)]
        streams.append(iter([frame(some) for some in cut]))
    everything = sorted((n for chunks in parts for chunk in chunks for n in chunk), key=lambda n: (n is None, n))
    assert [n for chunk in merged(streams, ["n"]) for n in chunk["n"]] == everything


def grown(rows: int, how: str) -> int:
    """By how much a process grows that joins so many rows of one key with as many."""
    command = [sys.executable, "-m", "tests.state.hot_key", str(rows), how]
    return int(subprocess.run(command, cwd=REPOSITORY, check=True, capture_output=True, text=True).stdout)


def test_memory_does_not_follow_the_pairs_of_a_frequent_key():
    """Four million pairs: in chunks they take a fourth of the memory, or less, that they take as a whole."""
    assert grown(2000, "chunked") * 4 < grown(2000, "whole")
