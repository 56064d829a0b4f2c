"""A directory of files: CSV has its columns by place, whatever of them is needed; a view may need none."""

from __future__ import annotations

import gzip
import os
import sys
from datetime import datetime

import polars as pl
import pytest

import penstock as ps
from penstock.app import App
from penstock.runtime.epoch.small import SMALL_EPOCH
from penstock.sources import Files

pytestmark = pytest.mark.xdist_group("spark")
AT = 1_700_000_000


@pytest.mark.parametrize("header", [False, True])
def test_csv_has_its_columns_by_place_whatever_is_needed(header, tmp_path, spark):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text(("n,page,ms\n" if header else "") + "1,/a,5\n2,/b,six\n3,/a,7\n")
    app = App("files")
    stream = app.stream(
        "visits", ps.files(tmp_path / "in", format="csv", header=header), schema="n int, page string, ms int"
    )
    app.view("by_page", stream.group_by("page").agg(ms=ps.sum("ms")))
    run = app.start(tmp_path / "state", spark=spark, tick=3600.0)
    try:
        run.catch_up()
        assert run.store.query("SELECT page, ms FROM by_page").rows() == [("/a", 12)]
        assert run.store.query("SELECT row FROM __refused").rows() == [("2,/b,six",)]
    finally:
        run.stop()


@pytest.mark.parametrize("format", ["json", "csv", "parquet"])
def test_a_view_that_needs_no_column_counts_all_rows(format, tmp_path, spark):
    (tmp_path / "in").mkdir()
    rows, path = pl.DataFrame({"page": ["/a", "/b", "/a"], "ms": [1, 2, 3]}), tmp_path / "in" / f"a.{format}"
    if format == "parquet":
        rows.write_parquet(path)
    else:
        path.write_text(rows.write_ndjson() if format == "json" else rows.write_csv(include_header=False))
    app = App("files")
    stream = app.stream("visits", ps.files(tmp_path / "in", format=format), schema="page string, ms bigint")
    app.view("total", stream.group_by().agg(n=ps.count()))
    run = app.start(tmp_path / "state", spark=spark, tick=3600.0)
    try:
        run.catch_up()
        assert run.store.query("SELECT n FROM total").rows() == [(3,)]
    finally:
        run.stop()


def test_a_file_that_comes_with_an_old_time_is_read_too(tmp_path, spark):
    folder = tmp_path / "in"
    folder.mkdir()
    for name, days in (("a", 0), ("b", 400)):  # Spark would leave out what is a week older than the newest file
        (tmp_path / name).write_text('{"page": "/a"}\n')
        os.utime(tmp_path / name, (AT - days * 86_400, AT - days * 86_400))
    app = App("files")
    stream = app.stream("visits", ps.files(folder), schema="page string")
    app.view("total", stream.group_by().agg(n=ps.count()))
    for name, total in (("a", 1), ("b", 2)):
        (tmp_path / name).rename(folder / name)
        with app.start(tmp_path / "state", spark=spark, tick=3600.0) as run:
            run.catch_up()
            assert run.store.query("SELECT n FROM total").rows() == [(total,)]


def test_json_is_read_by_the_tasks_whatever_files_are_called_and_however_they_are_packed(tmp_path, spark):
    folder = tmp_path / "ein & aus, 100 % größer"
    folder.mkdir()
    line = '{"page": "/a", "ms": 1}\n'
    (folder / "mit Leerzeichen #1.json").write_text(line + '\r\n\n{"page": "/b", "ms": "x"}\n' + line.strip())
    (folder / "packed.json.gz").write_bytes(gzip.compress(line.encode()))
    (folder / "long.json").write_text('{"page": "' + "a" * 5_000_000 + '", "ms": 5}\n')
    (folder / "empty.json").write_text("")
    app = App("files")
    stream = app.stream("visits", ps.files(folder), schema="page string, ms bigint")
    app.view("by_page", stream.group_by(page="left(page, 2)").agg(n=ps.count(), ms=ps.sum("ms")))
    run = app.start(tmp_path / "state", spark=spark, tick=3600.0)
    try:
        run.catch_up()
        assert sorted(run.store.query("SELECT page, n, ms FROM by_page").rows()) == [("/a", 3, 3), ("aa", 1, 5)]
        assert run.store.query("SELECT row FROM __refused").rows() == [('{"page": "/b", "ms": "x"}',)]
    finally:
        run.stop()


def test_parquet_is_read_by_the_tasks_in_the_types_that_the_stream_declares(tmp_path, spark):
    folder = tmp_path / "in" / "day=2024-05-01"
    folder.mkdir(parents=True)
    at = datetime(2024, 5, 1, 12, 0, 0, 500)
    kinds = {"at": pl.Datetime("ns"), "n": pl.Int32, "x": pl.Float32, "tags": pl.List(pl.String)}
    pl.DataFrame({"at": [at, at], "n": [1, None], "x": [0.5, 1.5], "tags": [["a"], []]}, schema=kinds).write_parquet(
        folder / "a.parquet"
    )
    app = App("files")
    stream = app.stream(
        "s", ps.files(tmp_path / "in", format="parquet"),
        schema="at timestamp, n bigint, x double, tags array<string>, day date, none string",
    )  # fmt: skip
    app.view("v", stream.group_by("day", "none").agg(at=ps.max("at"), n=ps.sum("n"), x=ps.sum("x"), rows=ps.count()))
    run = app.start(tmp_path / "state", spark=spark, tick=3600.0)
    try:
        run.catch_up()
        rows = run.store.query("SELECT day, none, at, n, x, rows FROM v").rows()
        assert rows == [("2024-05-01", None, "2024-05-01 12:00:00.000500", 1, 2.0, 2)]
    finally:
        run.stop()


def test_a_parquet_file_of_another_type_is_a_dead_letter_and_the_stream_goes_on(tmp_path, spark):
    (tmp_path / "in").mkdir()
    pl.DataFrame({"n": ["one"]}).write_parquet(tmp_path / "in" / "a.parquet")
    app = App("files")
    stream = app.stream("s", ps.files(tmp_path / "in", format="parquet"), schema="n bigint")
    app.view("v", stream.group_by().agg(n=ps.sum("n")))
    run = app.start(tmp_path / "state", spark=spark, tick=3600.0)
    try:
        run.catch_up()
        ((reason, path),) = run.store.query("SELECT reason, row FROM __refused WHERE kind = 'dead'").rows()
        assert reason.endswith("its column 'n' is large_string, and the stream declares bigint")
        assert path == str(tmp_path / "in" / "a.parquet")
        assert run.store.counters()["s.dead_files"] == 1
    finally:
        run.stop()


def test_parquet_with_types_that_only_spark_has_is_left_to_spark(tmp_path, spark):
    (tmp_path / "in").mkdir()
    pl.DataFrame({"s": [{"x": 1}, {"x": 2}]}).write_parquet(tmp_path / "in" / "a.parquet")
    app = App("files")
    stream = app.stream("s", ps.files(tmp_path / "in", format="parquet"), schema="s struct<x:bigint>")
    app.view("v", stream.group_by().agg(n=ps.sum("s.x")))
    run = app.start(tmp_path / "state", spark=spark, tick=3600.0)
    try:
        run.catch_up()
        assert run.store.query("SELECT n FROM v").rows() == [(3,)]
    finally:
        run.stop()


def test_a_file_that_vanishes_before_its_parts_are_read_is_one_dead_letter(tmp_path, spark, monkeypatch):
    (tmp_path / "in").mkdir()
    gone, good = tmp_path / "in" / "a.json", tmp_path / "in" / "b.json"
    for path in (gone, good):
        path.write_text('{"page": "/a"}\n' * 100)

    def size(path: str) -> int:
        gone.unlink(missing_ok=True)
        return 8 << 20

    monkeypatch.setattr(sys.modules[Files.__module__], "size", size)
    app = App("files")
    stream = app.stream("visits", ps.files(tmp_path / "in"), schema="page string")
    app.view("by_page", stream.group_by("page").agg(n=ps.count()))
    spark.conf.set(SMALL_EPOCH, "0")
    try:
        run = app.start(tmp_path / "state", spark=spark, tick=3600.0)
        try:
            run.catch_up()
            assert run.store.query("SELECT page, n FROM by_page").rows() == [("/a", 100)]
            ((row, reason),) = run.store.query("SELECT row, reason FROM __refused").rows()
            assert row == str(gone)
            assert reason.endswith("it does not exist")
        finally:
            run.stop()
    finally:
        spark.conf.unset(SMALL_EPOCH)
