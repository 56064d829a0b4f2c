"""Rows of files have positions by modification time, then path, whatever a directory and Spark's tasks make of them."""

from __future__ import annotations

import json
import os
import random
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
import pytest

import penstock as ps
from penstock.app import App
from penstock.errors import PenstockError
from penstock.kernel.offsets import epoch_offsets
from penstock.runtime.commit.stepper import Stepper
from penstock.runtime.epoch.reduction import SLICE
from penstock.runtime.epoch.small import SMALL_EPOCH
from penstock.sources.base import PATH, ROW
from penstock.sources.files.listed import listed_between
from penstock.sources.files.positions import in_files, shares
from penstock.store.checkpoints import Place

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

AT = 1_700_000_000


def note(folder: Path, name: str, *files: tuple[str, int, int]) -> None:
    lines = [f'{{"path":"file:///in/{path}","timestamp":{at},"batchId":{entry}}}' for path, entry, at in files]
    (folder / name).write_text("\n".join(["v1", *lines]))


def test_an_epoch_has_the_files_of_its_entries_by_time_and_then_by_decoded_path(tmp_path):
    note(tmp_path, "8", ("z.json", 8, 1))
    note(tmp_path, "9.compact", ("z.json", 8, 1), ("b.json", 9, 7), ("a%20b.json", 9, 7), ("a!.json", 9, 7))
    note(tmp_path, "10", ("y.json", 10, 6))
    entries = Place(str(tmp_path))
    assert listed_between(entries, 8, 9) == ["/in/a b.json", "/in/a!.json", "/in/b.json"]
    assert listed_between(entries, 8, 10)[0] == "/in/y.json"
    (tmp_path / "8").unlink()  # as Spark does, some time after it has compacted
    assert listed_between(entries, 7, 10)[:2] == ["/in/z.json", "/in/y.json"]


def test_an_epoch_whose_files_are_not_listed_is_refused(tmp_path):
    note(tmp_path, "0", ("a.json", 0, 1))
    with pytest.raises(PenstockError, match="does not list the files of entry 1"):
        listed_between(Place(str(tmp_path)), -1, 1)


@pytest.mark.parametrize("sizes", [[0], [1 << 40], [5, 1 << 30, 0], [0] * 100_000, [1 << 33, *[10] * 5000]])
def test_files_divide_the_positions_of_their_epoch_in_order_and_by_size(sizes):
    paths, space = [str(number) for number in range(len(sizes))], epoch_offsets(7)
    positions = list(shares(paths, sizes, space).values())
    assert (positions[0].start, positions[-1].stop) == (space.start, space.stop)
    assert all(one.stop == other.start for one, other in pairwise(positions))
    if sum(sizes) < 1 << 37:
        assert all(len(own) > size for own, size in zip(positions, sizes, strict=True))


def test_a_file_with_more_rows_than_positions_is_refused_by_name():
    rows = pl.DataFrame({PATH: ["/in/a"] * 3, ROW: [0, 1, 2]})
    assert in_files(rows, {"/in/a": range(5, 8)})["__offset"].to_list() == [5, 6, 7]
    with pytest.raises(PenstockError, match="'/in/a' has more than 2 rows"):
        in_files(rows, {"/in/a": range(5, 7)})


def write(folder: Path, format: str, number: int, rows: int) -> Path:
    """A file of so many rows, all with the file's number, and a name that Spark encodes."""
    path = folder / f"n {number:02} 100%+.{format.removesuffix(' with structs')}"
    if format.startswith("parquet"):
        frame = pl.DataFrame(
            {"k": ["a"] * rows, "n": [number] * rows, "row": range(rows)},
            {"k": pl.String, "n": pl.Int64, "row": pl.Int64},
        )
        frame.with_columns(pl.struct(pl.col("n").alias("x")).alias("s")).write_parquet(path)
    else:
        line = "a,{},{}\n" if format == "csv" else '{{"k": "a", "n": {}, "row": {}}}\n'
        path.write_text("".join(line.format(number, row) for row in range(rows)))
    return path


def count(number: int) -> int:
    return 1 + 7 * number % 11


def fill(folder: Path, format: str) -> list[int]:
    """Twelve files, of which eight have the same time; the numbers of all rows in the order of the files."""
    folder.mkdir()
    numbers = list(range(12))
    random.Random(7).shuffle(numbers)
    for number in numbers:  # the sizes have another order than the names
        path = write(folder, format, number, count(number))
        os.utime(path, (AT, AT + (0 if number < 8 else -number)))  # four files are older, the last one is the oldest
    return [100 * number + row for number in (11, 10, 9, 8, *range(8)) for row in range(count(number))]


@pytest.mark.xdist_group("spark")
@pytest.mark.parametrize("format", ["json", "csv", "parquet", "parquet with structs"])
def test_files_of_one_epoch_are_ordered_by_time_and_then_by_name(format, tmp_path, spark):
    order = fill(tmp_path / "in", format)
    app = App("files")
    value = "s.x" if format == "parquet with structs" else "n"
    schema = "k string, n int, row int" + (", s struct<x: int>" if format == "parquet with structs" else "")
    stream = app.stream("s", ps.files(tmp_path / "in", format=format.split()[0]), schema=schema)
    listing = ps.collect_list(f"{value} * 100 + row")
    app.view("v", stream.group_by("k").agg(all=listing, last=ps.last(value), first=ps.first(value)))
    run = app.start(tmp_path / "state", spark=spark, tick=3600.0)
    try:
        run.catch_up()
        ((all_rows, last, first),) = run.store.query('SELECT "all", last, first FROM v').rows()
        assert json.loads(all_rows) == order
        assert (last, first) == (7, 11)
        assert run.store.query("SELECT count(*) FROM __commits WHERE kind = 'epoch'").item() == 1
    finally:
        run.stop()


def run_once(folder: Path, state: Path, spark: SparkSession) -> pl.DataFrame:
    """Reads a directory in one epoch; the events with their positions, also those that an epoch wrote in vain."""
    app = App("files")
    stream = app.stream("s", ps.files(folder), schema="k string, n int, row int", keep="all")
    app.view("v", stream.group_by("k").agg(rows=ps.count()))
    run = app.start(state, spark=spark, tick=3600.0)
    try:
        run.catch_up()
    finally:
        run.stop()
    files = [path for path in (state / "history").rglob("*.parquet") if "__offset" in pl.read_parquet_schema(path)]
    return (
        pl.concat([pl.read_parquet(path, columns=["n", "row", "__offset"]) for path in files]).unique().sort("__offset")
    )


@pytest.mark.xdist_group("spark")
def test_a_replayed_epoch_gives_the_same_positions_with_any_number_of_tasks_and_cuts(tmp_path, spark, monkeypatch):
    order = fill(tmp_path / "in", "json")
    once = run_once(tmp_path / "in", tmp_path / "once", spark)
    with monkeypatch.context() as patch:

        def die(*_: object) -> None:
            raise RuntimeError("the process dies here")

        patch.setattr(Stepper, "commit", die)
        with pytest.raises(Exception, match="the process dies here"):
            run_once(tmp_path / "in", tmp_path / "again", spark)
    spark.conf.set(SMALL_EPOCH, "0")
    spark.conf.set(SLICE, "75")  # a few lines for each task, and most cuts are within lines
    try:
        again = run_once(tmp_path / "in", tmp_path / "again", spark)
    finally:
        spark.conf.unset(SMALL_EPOCH)
        spark.conf.unset(SLICE)
    assert (once["n"] * 100 + once["row"]).to_list() == order
    assert again.equals(once)
