"""Files at a URL, which Spark reads: a damaged one is one dead letter, and the others count."""

from __future__ import annotations

import gzip
import json
import os
import re
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as ps
from penstock.sources.files.damaged import damaged_files
from penstock.store.arrivals import Ages


class Frame:
    """Stands for what Spark reads of some files: writing it fails if one of them is bad."""

    def __init__(self, paths: list[str], jobs: list[list[str]]) -> None:
        self._paths, self._jobs = paths, jobs
        self.write = self

    def format(self, _: str) -> Frame:
        return self

    mode = format

    def save(self) -> None:
        self._jobs.append(self._paths)
        if any("bad" in path for path in self._paths):
            raise OSError("[FAILED_READ_FILE] a file is damaged")


def test_damaged_files_are_found_by_halves():
    jobs: list[list[str]] = []
    paths = [f"{number}{'bad' if number in (3, 70) else ''}" for number in range(128)]
    found = list(damaged_files(lambda some: Frame(list(some), jobs), paths))  # type: ignore[arg-type,return-value]
    assert found == [
        ("3bad", "[FAILED_READ_FILE] a file is damaged"),
        ("70bad", "[FAILED_READ_FILE] a file is damaged"),
    ]
    assert len(jobs) < 30
    assert list(damaged_files(lambda some: Frame(list(some), jobs), paths[:3])) == []  # type: ignore[arg-type,return-value]


@pytest.mark.parametrize("message", ["[FAILED_READ_FILE] 403 Forbidden", "the job was cancelled"])
def test_what_is_no_fault_of_a_file_is_raised(message: str):
    class Failing(Frame):
        def save(self) -> None:
            raise OSError(message)

    with pytest.raises(OSError, match=re.escape(message)):
        list(damaged_files(lambda some: Failing(list(some), []), ["a", "b"]))  # type: ignore[arg-type,return-value]


def write(folder: Path, format: str) -> None:
    """Two good files and two damaged ones, with names that Spark encodes."""
    for number in range(3):
        rows = [{"k": "a", "s": {"x": number}}] * 3
        if format == "parquet":
            pq.write_table(pa.Table.from_pylist(rows), folder / f"n {number}.parquet")
        else:
            lines = "".join(json.dumps(row) + "\n" for row in rows)
            (folder / f"n {number}.json.gz").write_bytes(gzip.compress(lines.encode()))
    damaged = folder / ("n 1.parquet" if format == "parquet" else "n 1.json.gz")
    damaged.write_bytes(damaged.read_bytes()[:-9])
    other = folder / ("z.parquet" if format == "parquet" else "z.json.gz")
    other.write_bytes(b"nothing of the kind")


@pytest.mark.xdist_group("spark")
@pytest.mark.parametrize("format", ["json", "parquet"])
def test_a_damaged_file_at_a_url_is_one_dead_letter(format, tmp_path, spark):
    (tmp_path / "in").mkdir()
    write(tmp_path / "in", format)
    for path in (tmp_path / "in").iterdir():
        os.utime(path, (0, time.time() - 3600))
    app = ps.App("at_url")
    stream = app.stream("s", ps.files(f"file://{tmp_path}/in", format=format), schema="k string, s struct<x: bigint>")
    app.view("v", stream.group_by("k").agg(n=ps.count(), xs=ps.collect_list("s.x", order="position")))
    run = app.start(tmp_path / "state", spark=spark, tick=3600.0)
    try:
        run.catch_up()
        ((count, xs),) = run.store.query("SELECT n, xs FROM v").rows()
        assert (count, sorted(json.loads(xs))) == (6, [0, 0, 0, 2, 2, 2])
        dead = run.store.query("SELECT row, reason FROM __refused WHERE kind = 'dead' ORDER BY row").rows()
        assert [Path(path).name.split(".")[0] for path, _ in dead] == ["n 1", "z"]
        assert all(reason.startswith("the file cannot be read, and none of its rows count: ") for _, reason in dead)
        (ages,) = run.store.query("SELECT ages FROM __arrivals")["ages"]
        assert sum(count for age, count in Ages.parsed(ages).items() if age > 3_300_000) == 6
    finally:
        run.stop()
